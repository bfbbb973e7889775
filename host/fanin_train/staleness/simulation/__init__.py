"""Bounded staleness in virtual time: nodes, network, pauses and deaths from one seed."""
