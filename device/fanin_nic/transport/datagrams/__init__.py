"""Unreliable datagrams (section 9.8.3)."""
