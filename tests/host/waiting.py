"""Waiting for what other threads of a test do."""

from __future__ import annotations

import time

from fanin.busy import stalled

BOUND_S = 20


def await_others() -> None:
    """The other rank has posted what it was waited for, but may not have noted that: what seems to wait for room there
    keeps calls here from the fast path."""
    deadline = time.monotonic() + BOUND_S
    while stalled() and time.monotonic() < deadline:
        time.sleep(0.001)
