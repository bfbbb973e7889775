"""Data transfer: address translation, reading contributions from the ranks' memory, writing results into it."""
