"""Where data and devices are on a server: topology, the hand-off of data between servers, placement of workers."""
