"""Training over a fabric that does not wait for stragglers and survives the loss of a node."""
