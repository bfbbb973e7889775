"""Agents: the host of a device under test."""
