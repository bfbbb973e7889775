"""Asynchronous reduction with bounded staleness: founding document 003.

Each node has its own parameters, sends every gradient to all others, and waits only to be at most `stale_max`
iterations ahead of the slowest.
"""
