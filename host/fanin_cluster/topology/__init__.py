"""GPUs, NICs, PCIe switches and NUMA nodes of a server, and how near they are to each other."""
