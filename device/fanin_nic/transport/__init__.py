"""Ordinary RDMA traffic (step S5): the transport services RC, UC and UD of the InfiniBand specification over RoCEv2.

A pure state machine beside the collective engine, made as that one is: events in (packet, work request, time), actions
out (packets, memory, completions), all state in one arena, no clock and no socket. Chapters and sections that
docstrings name are those of the InfiniBand Architecture Specification 1.4, volume 1. docs/transport.md says what is
implemented.
"""
