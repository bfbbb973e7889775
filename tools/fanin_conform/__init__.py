"""The conformance suite: scripts of packets in and packets out, against a device that speaks the protocol."""
