"""Stream: the collectives of one rank in one job, in order, from the program to the send queue and back."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable

from fanin.errors import DeviceLost, FaninError, InvalidRequest, Timeout
from fanin.request import Request
from fanin.verbs import CQ, WC, CollectiveQP
from fanin_wire.abi import SQ_DEPTH

BACKLOG_SLICE = 0.002  # seconds between looks at other streams that could not post all yet
CLOSE_SLICE = 0.1  # seconds that a sleeper may need to see that the stream is closed
BATCH = 64

# Streams with requests under way: kept alive, since the device may still write into their arrays.
_busy: set[Stream] = set()


class Stream:
    """Posts requests as far as the queues have room, keeps the rest, and ends requests as their completions come.

    submit() never blocks. Never more is under way than the send queue holds, so that no queue can overflow.
    `failure` gives the exception of a completion, None if it is a success. All methods may be called by any thread.
    """

    def __init__(self, qp: CollectiveQP, cq: CQ, failure: Callable[[Request, WC], FaninError | None]) -> None:
        self._qp, self._cq, self._failure = qp, cq, failure
        self._lock = threading.RLock()
        self._awake = threading.Condition(self._lock)
        self._sleepers = 0
        self._closed = False
        self._outstanding: dict[int, Request] = {}
        self._backlog: deque[Request] = deque()
        self._posted = 0

    def submit(self, request: Request) -> None:
        """Take a request; it is posted now or when there is room."""
        with self._lock:
            if self._closed:
                raise InvalidRequest("the communicator is closed")
            self._backlog.append(request)
            _busy.add(self)
            self.progress()

    def progress(self) -> None:
        """Take completions and post what has waited for room, without blocking."""
        with self._lock:
            if self._closed:
                return
            try:
                self._take_completions()
                self._post_backlog()
            except DeviceLost as error:
                self.fail_all(error)
            if not self._outstanding and not self._backlog:
                _busy.discard(self)

    def _take_completions(self) -> None:
        count = BATCH
        while count == BATCH:
            count, completions = self._cq.poll(BATCH)
            for completion in completions:
                request = self._outstanding.pop(completion.wr_id, None)
                if request is not None:  # else it was given up when the device seemed lost
                    request.finish(self._failure(request, completion))

    def _post_backlog(self) -> None:
        while self._backlog and len(self._outstanding) < SQ_DEPTH:
            self._post(self._backlog[0])
            self._backlog.popleft()

    def _post(self, request: Request) -> None:
        work = request.work
        if work.length == 0:  # takes no position of the job's stream: there is nothing for the device to do
            self._qp.skip_message()
            request.finish()
            return
        work.wr_id = self._posted
        try:
            self._qp.post_send(work)
        except DeviceLost:
            raise
        except FaninError as error:
            request.finish(error)
        else:
            self._outstanding[work.wr_id] = request
            self._posted += 1

    def wait_for(self, request: Request, timeout: float | None) -> None:
        """Wait until `request` has ended; Timeout after `timeout` seconds, and the request goes on."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                self.progress()
                if request.done:
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Timeout(f"{request} is still under way after {timeout:g} s")
                seen = self._cq.seen
                self._sleepers += 1
            try:
                self._sleep(seen, left)
            finally:
                self._wake()

    def _sleep(self, seen: int, left: float) -> None:
        """Until a completion comes. Streams that ranks use in opposite order must not block each other's posts."""
        stalled = [other for other in list(_busy) if other is not self and other._backlog]
        for other in stalled:
            other.progress()
        # A lost device is reported by the next look at the queue, after what is left in it.
        with contextlib.suppress(DeviceLost):
            self._cq.wait(min(left, BACKLOG_SLICE if stalled else CLOSE_SLICE), seen)

    def _wake(self) -> None:
        with self._lock:
            self._sleepers -= 1
            self._awake.notify_all()

    def close(self, error: FaninError) -> None:
        """End everything with `error`; returns when no thread sleeps on the completion queue any more."""
        with self._lock:
            self._closed = True
            self.fail_all(error)
            self._awake.wait_for(lambda: self._sleepers == 0)

    def fail_all(self, error: FaninError) -> None:
        """End everything that is under way or waits, with an exception of the kind of `error`."""
        with self._lock:
            for request in [*self._outstanding.values(), *self._backlog]:
                request.finish(FaninError.of(error.status, f"{request}: {error.detail}"))
            self._outstanding.clear()
            self._backlog.clear()
            _busy.discard(self)

    def memory_under_way(self) -> list[object]:
        """The memory that the device may still write to."""
        with self._lock:
            return [request.memory for request in self._outstanding.values()]

    def counts(self) -> dict[str, int]:
        """How many requests were posted, are under way, and wait for room."""
        return {"posted": self._posted, "outstanding": len(self._outstanding), "backlog": len(self._backlog)}
