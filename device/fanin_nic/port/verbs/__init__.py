"""The port over a verbs device: packets are the datagrams of a UD queue pair, or the frames of a RAW_PACKET one."""
