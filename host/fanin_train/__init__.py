"""Training over a fabric: that does not wait for stragglers, and that survives the loss of a node."""
