"""Topology, hand-off and placement (fanin_cluster)."""
