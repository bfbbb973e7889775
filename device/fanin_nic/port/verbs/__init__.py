"""The port over a verbs device: packets are datagrams of a UD queue pair, or frames of a RAW_PACKET one."""
