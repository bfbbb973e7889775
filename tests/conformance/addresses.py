"""Loopback addresses of a test, by its process."""

import os


def loopback_block() -> str:
    """The first three numbers of addresses that no other test run uses."""
    return f"127.{232 + (os.getpid() >> 8) % 16}.{os.getpid() % 256}"
