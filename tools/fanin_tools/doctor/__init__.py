"""Checks of this machine: what it can do, and what is missing for the rest."""
