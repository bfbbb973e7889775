"""Ordinary RDMA traffic (step S5): RC, UC and UD of the InfiniBand specification over RoCEv2 (docs/transport.md).

A pure state machine beside the collective engine and like it: events in, actions out, all state in one arena, no clock
and no socket. Sections in docstrings are those of the InfiniBand Architecture Specification 1.4, volume 1.
"""
