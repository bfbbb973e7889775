"""A send or receive."""

import threading
import time
from collections.abc import Callable

import numpy as np

from fanin.errors import FaninError, Timeout
from fanin_torch.messages.nic_memory import Place
from fanin_torch.messages.progress import Progress

ANY = -1  # peer of a receive from any rank


class Message:
    """source: sender of a receive that has ended. number: of a send."""

    def __init__(
        self, array: np.ndarray, peer: int, tag: int, limit: float, progress: Progress, number: int = 0
    ) -> None:
        self.array, self.peer, self.tag, self.number = array, peer, tag, number
        self.source = peer
        self._progress = progress
        self._limit = limit
        self._deadline = time.monotonic() + limit
        self._ending = threading.RLock()  # between the end and `when_ended`
        self.done = False
        self._at_end: Callable[[], None] | None = None
        self._error: FaninError | None = None
        self.place: Place | None = None  # of a long message

    def end(self, error: FaninError | None = None) -> None:
        """The memory is the program's again; but after a time-out of a long receive between hosts, a READ into it may
        still be under way. The caller holds the lock of progress."""
        with self._ending:
            if not self.done:
                self._error, self.done = error, True
            at_end, self._at_end = self._at_end, None
        self._progress.wake()
        if at_end is not None:
            at_end()

    def end_if_late(self) -> None:
        """With Timeout, when its time has run out. Later messages to the same rank are not affected."""
        if not self.done and time.monotonic() >= self._deadline:
            self.end(self._late(self._limit))

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call it once at the end; it must not wait."""
        with self._ending:
            if not self.done:
                self._at_end = call
                return
        call()

    def test(self) -> bool:
        return self.done

    def wait(self, timeout: float | None = None) -> None:
        """Raises the message's error, or Timeout."""
        if timeout is not None:
            self._until(time.monotonic() + timeout)
            if not self.done:
                raise self._late(timeout)
        while not self.done:
            self._until(self._deadline)
            with self._progress.lock:
                self.end_if_late()
        if self._error is not None:
            raise self._error

    def _until(self, deadline: float) -> None:
        if not self.done:
            self._progress.until(self.test, deadline)

    def _late(self, seconds: float) -> Timeout:
        return Timeout(f"{self} is still under way after {seconds:g} s")

    def __str__(self) -> str:
        peer = "any rank" if self.peer == ANY else f"rank {self.peer}"
        return f"a message of {self.array.nbytes} bytes with tag {self.tag}, to or from {peer}"
