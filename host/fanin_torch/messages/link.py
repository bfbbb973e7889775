"""What a way to another rank is, and how two ranks meet to make one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fanin.errors import FaninError, Flushed
from fanin_torch.messages.frame import Frame
from fanin_torch.messages.message import Message
from fanin_torch.messages.progress import LOOK_SECONDS, Progress

AtEnd = Callable[[FaninError | None], None]  # of something that was begun
POLL_MIN, POLL_MAX = 0.001, 0.02  # seconds between two looks into the store while a peer has not connected


class Link(Protocol):
    """The way to one rank. The caller holds the lock of the messages, but for `connect`."""

    def connect(self, meeting: Meeting) -> None:
        """Wait for the other side: afterwards both can send. Raises FaninError."""

    def send(self, header: bytes, data: np.ndarray | None, then: AtEnd) -> None:
        """A frame. data: must not change until `then` is called."""

    def offer(self, message: Message) -> tuple[int, int]:
        """Let the other side fetch a message: key and address for the header. Raises FaninError."""

    def fetch(self, message: Message, offer: Frame, then: AtEnd) -> None:
        """Get what was offered to where the message has its memory."""

    def release(self, message: Message) -> None:
        """A message that was offered or fetched has ended."""


class Links(Protocol):
    """The ways of one kind. progress: of what comes by them."""

    progress: Progress

    def link(self, rank: int) -> Link:
        """To one more rank. Raises FaninError."""

    def probe(self, ranks: set[int]) -> None:
        """Look whether these are still there."""

    def fail(self, error: FaninError) -> None:
        """End what was begun."""

    def close(self) -> None:
        """After progress has ended."""


class Meeting:
    """Of two ranks in the store of their group. is_open: whether anybody still wants it. limit: seconds, after which
    the store is asked less often."""

    def __init__(self, store: Any, rank: int, peer: int, is_open: Callable[[], bool], limit: float) -> None:
        self._store, self.rank, self.peer, self._is_open, self._limit = store, rank, peer, is_open, limit

    def swap(self, what: str, mine: Any) -> Any:
        """Tell the other rank something, and wait for what it tells. Raises Flushed when nobody wants it any more."""
        self._store.set(f"messages/{self.rank}/{self.peer}/{what}", json.dumps(mine))
        theirs = f"messages/{self.peer}/{self.rank}/{what}"
        self.until(lambda: self._store.check([theirs]))
        return json.loads(self._store.get(theirs))

    def until(self, is_there: Callable[[], bool]) -> None:
        """Ask again and again: a call that waits in the store would keep it from the program."""
        pause, begin = POLL_MIN, time.monotonic()
        while not is_there():
            if not self._is_open():
                raise Flushed("the group was left")
            time.sleep(pause)
            is_late = time.monotonic() - begin > self._limit
            pause = min(2 * pause, LOOK_SECONDS if is_late else POLL_MAX)
