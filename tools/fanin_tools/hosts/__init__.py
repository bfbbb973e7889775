"""Several hosts with devices of their own: which they are, and whether they can work together."""
