"""Several hosts with devices of their own: their names, and whether they can work together."""
