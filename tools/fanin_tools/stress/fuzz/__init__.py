"""Hostile input for devices: packets, control messages, work requests and rings, from a seed that replays them."""
