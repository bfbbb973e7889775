"""Asynchronous reduction with bounded staleness: founding document 003.

Each node goes on with its own parameters, sends every gradient to all other nodes, and waits only where it would be
more than `stale_max` iterations ahead of the slowest.
"""
