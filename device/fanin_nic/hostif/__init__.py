"""The device's side of the host interface: control socket, clients and their memory, rings."""
