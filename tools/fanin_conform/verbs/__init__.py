"""Ordinary RoCEv2 traffic: the suite as the other side of a queue pair. Nothing here knows the offload."""
