"""Packets that arrive: what they are, for whom, and whether they may be."""
