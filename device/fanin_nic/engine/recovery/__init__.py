"""Loss recovery: a NIC asks with a header before it sends payload again; nothing is resent on suspicion."""
