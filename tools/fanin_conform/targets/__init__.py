"""Targets of the suite, with the interface in `target`."""
