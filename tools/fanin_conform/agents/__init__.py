"""Agents: what works a device under test as its host does."""
