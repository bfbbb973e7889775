"""Who takes what comes in: whoever waits for a message, or a thread that sleeps while nobody does.

A message that another thread sees first costs its waiter two thread switches more. So that thread keeps away while
others wait, or did a moment ago and nothing is under way.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from fanin.errors import FaninError, Flushed, InvalidRequest

LOOK_SECONDS = 0.2  # between two looks for what has no completion, such as time-outs
AWAY_SECONDS = 0.002  # between two looks of the thread whether it is needed
ACTIVE_SECONDS = 0.5  # after a wait: the program probably waits for its next message, too
AGAIN_SECONDS = 0.001  # between two looks of a thread that got no descriptor


class Progress:
    """Of one source. lock: of all that is done here. handle: called under it for each event. wake: wakes those who wait
    for the end of a message."""

    def __init__(
        self,
        name: str,
        source: Source,
        lock: threading.RLock,
        handle: Callable[[Any], None],
        owner: Owner,
        wake: Callable[[], None],
    ) -> None:
        self._source, self.lock, self._handle, self._owner, self.wake = source, lock, handle, owner, wake
        self._taken: deque[Any] = deque()  # events to be handled; kept, since a signal handler may raise in between
        self._users: list[int] = []  # threads that wait, and so take events
        self._waits = 0  # how many waits have begun
        self._changed = threading.Condition(lock)  # for those that wait until others have left
        self._is_away = False  # the thread keeps away until nobody waits
        self._is_open, self._has_ended = True, False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def until(self, is_over: Callable[[], bool], deadline: float) -> None:
        """Take events until `is_over`, or until a time of time.monotonic()."""
        require_calm(self.lock)
        this = threading.get_ident()
        try:
            with self.lock:
                self._users.append(this)
                self._waits += 1
            while True:
                with self.lock:
                    has_more = self._is_open and self._take()
                    if is_over() or not self._is_open:
                        return
                    seen = self._source.seen  # another thread may take what comes now: that ends the sleep, too
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                if not has_more:
                    self._source.wait(min(left, LOOK_SECONDS), seen)
        except FaninError as error:
            with self.lock:
                self._owner.fail(error)
        except (LookupError, ValueError):
            if self._is_open:  # else a signal handler has left the group meanwhile
                raise
        finally:
            with self.lock:
                if this in self._users:
                    self._users.remove(this)
                if not self._is_open or (self._is_away and not self._users):
                    self._changed.notify_all()

    def close(self) -> None:
        """Return when nobody takes events; those who do leave within LOOK_SECONDS. Any thread may call it, even a
        waiting one from a signal handler."""
        this, own = threading.get_ident(), threading.current_thread() is self._thread
        with self.lock:
            self._is_open = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: set(self._users) <= {this} and (own or self._has_ended))

    def _take(self) -> bool:
        """Whether there may be more."""
        self._handle_taken()
        count, events = self._source.poll()
        self._taken.extend(events)
        self._handle_taken()
        return bool(count)

    def _handle_taken(self) -> None:
        while self._taken:
            self._handle(self._taken.popleft())

    def _run(self) -> None:
        try:
            self._take_while_nobody_waits()
        except FaninError as error:
            with self.lock:
                self._owner.fail(error)
        except BaseException as defect:
            with self.lock:
                self._owner.fail(Flushed(f"the thread of the messages has ended: {defect!r}"))
            raise
        finally:
            with self.lock:
                self._has_ended = True
                self._changed.notify_all()

    def _take_while_nobody_waits(self) -> None:
        looked, waits, active = time.monotonic(), 0, 0.0
        while self._is_open:
            now = time.monotonic()
            if self._waits != waits:
                waits, active = self._waits, now
            if self._users:
                self._keep_away()
            elif now == active or (now - active < ACTIVE_SECONDS and not self._owner.has_pending()):
                time.sleep(AWAY_SECONDS)
            elif self._source.wait(LOOK_SECONDS):
                with self.lock:
                    if self._is_open and not self._users:
                        self._take()
            if time.monotonic() - looked > LOOK_SECONDS:
                looked = time.monotonic()
                with self.lock:
                    if self._is_open:
                        self._owner.look()

    def _keep_away(self) -> None:
        with self.lock:
            self._is_away = True
            self._changed.wait_for(lambda: not (self._users and self._is_open), LOOK_SECONDS)
            self._is_away = False


class Owner(Protocol):
    """Whose progress it is. The caller holds the lock, except for `has_pending`."""

    def has_pending(self) -> bool:
        """Whether a message of this rank is under way."""

    def look(self) -> None:
        """Look for what has no event, such as time-outs; called a few times a second."""

    def fail(self, error: FaninError) -> None:
        """Some links are dead: end every message."""


class Source(Protocol):
    """The source of events: a NIC's completion queue, or a rank's sockets."""

    @property
    def seen(self) -> int:
        """A number that changes when another thread took what a waiter waits for."""

    def poll(self) -> tuple[int, Iterable[Any]]:
        """Some events, without waiting, and 0 if nothing has come. One thread at a time."""

    def wait(self, timeout: float, seen: int | None = None) -> bool:
        """Sleep until there is something to take, or `seen` has changed. False: `timeout` seconds have passed."""


def require_calm(lock: threading.RLock) -> None:
    """InvalidRequest in a signal handler that interrupted a holder of this lock."""
    if lock._is_owned():  # type: ignore[attr-defined]
        cause = "a signal handler has asked for a message while another message was being handled"
        raise InvalidRequest(cause, remedy="Let the handler note what is to be sent, and the program send it.")


class Sleepers:
    """Threads that sleep until a socket is ready, or another thread has ended the message they wait for. They are at
    one epoll. lock: of the messages; a signal handler releases it while it waits for their thread."""

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
