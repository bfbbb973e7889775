"""Every format of Fanin, once: wire headers, host interface, status, operations and data types."""
