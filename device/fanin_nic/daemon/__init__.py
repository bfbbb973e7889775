"""The running device: engine, port and host interface in one process."""
