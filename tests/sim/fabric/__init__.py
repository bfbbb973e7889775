"""Tests of the simulated fabric: topology, links, traffic."""
