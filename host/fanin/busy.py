"""Busy: the streams of this process that have requests under way.

They are kept alive, since the device may still write into the arrays of their requests. And they are looked after by
whoever waits: another rank may need what one of them has not posted yet before it does its part of what is waited for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fanin.stream import Stream

busy: set[Stream] = set()
os.register_at_fork(after_in_child=busy.clear)  # they are the parent's


def advance_all() -> None:
    """Post what has waited for room, in every stream."""
    for stream in list(busy):
        stream.advance()


def stalled() -> list[Stream]:
    """Those that could not post all yet."""
    return [stream for stream in list(busy) if stream.has_backlog] if busy else []
