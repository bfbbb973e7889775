"""Faults of networks and processes, made on a running fabric: what tests and soak runs let real devices survive."""
