"""Hostile input for engines and devices: packets, control messages, work requests and rings, all from one seed."""
