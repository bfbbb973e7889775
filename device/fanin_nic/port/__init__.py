"""The RoCEv2 port of a device: UDP sockets driven from compiled code, super-packets, ICRCs."""
