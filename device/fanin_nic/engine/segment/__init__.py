"""Segment buffer and compute: slots, contributions, kernels, completion of a segment."""
