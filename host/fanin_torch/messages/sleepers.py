"""Threads that sleep until a socket is ready, or another thread has ended the message they wait for."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time

AGAIN_SECONDS = 0.001  # between two looks of a thread that got no descriptor


class Sleepers:
    """At one epoll. lock: of the messages; a signal handler releases it while it waits for their thread."""

    def __init__(self, epoll: select.epoll, lock: threading.RLock) -> None:
        self.seen = 0  # changes when a message has ended
        self._epoll = epoll
        self._lock = lock
        self._asleep: dict[Sleeper, bool] = {}  # to whether it waits for the end of a message
        self._awake = [Sleeper(epoll)]

    def wake(self, *, everyone: bool = False) -> None:
        """At the end of a message. everyone: also wake those that wait for sockets only. The caller holds the lock."""
        self.seen += 1
        for sleeper, waits_for_end in list(self._asleep.items()) if self._asleep else ():
            if waits_for_end or everyone:
                sleeper.wake()

    def sleep(self, timeout: float, seen: int | None) -> bool:
        """As `Source.wait`."""
        with self._lock:
            if seen is not None and self.seen != seen:
                return True
            sleeper = self._take()
            if sleeper is not None:
                self._asleep[sleeper] = seen is not None
        if sleeper is None:
            time.sleep(min(timeout, AGAIN_SECONDS))
            return True
        try:
            return sleeper.sleep(timeout)
        finally:
            with self._lock:
                del self._asleep[sleeper]
                sleeper.clear()
                self._awake.append(sleeper)

    def _take(self) -> Sleeper | None:
        """None: too many open files."""
        with contextlib.suppress(OSError):
            return self._awake.pop() if self._awake else Sleeper(self._epoll)
        return None

    def close(self) -> None:
        for sleeper in self._awake:
            sleeper.close()


class Sleeper:
    def __init__(self, epoll: select.epoll) -> None:
        self._event = os.fdopen(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK), "r+b", buffering=0)
        self._poll = select.poll()
        self._poll.register(epoll, select.POLLIN)
        self._poll.register(self._event, select.POLLIN)
        self._is_woken = False

    def sleep(self, seconds: float) -> bool:
        """Whether there is a reason to look."""
        return bool(self._poll.poll(seconds * 1000))

    def wake(self) -> None:
        os.eventfd_write(self._event.fileno(), 1)
        self._is_woken = True

    def clear(self) -> None:
        if self._is_woken:
            self._is_woken = False
            with contextlib.suppress(BlockingIOError):  # cleared by a signal handler
                os.eventfd_read(self._event.fileno())

    def close(self) -> None:
        self._event.close()
