"""Stream: the collectives of one rank in one job, in order, from the program to the send queue and back."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fanin.busy import busy, stalled
from fanin.completions import Completions
from fanin.driver import check
from fanin.errors import CqOverrun, DeviceLost, FaninError, InvalidRequest, Timeout
from fanin.fastpath import FastPath, Prepared
from fanin.progress import Progress
from fanin.questions import QUESTIONS, Posting, Questions
from fanin.request import Request
from fanin.verbs import CQ, WC, CollectiveQP, CollectiveWR
from fanin.verbs.collective_qp import MESSAGES
from fanin_wire.abi import MID_BITS, SQ_DEPTH

BACKLOG_SLICE = 0.002  # seconds between looks at other streams that could not post all yet
CLOSE_SLICE = 0.1  # seconds that a sleeper may need to see that the stream is closed
CLOSE_SECONDS = 5.0  # after which one that has not said so does not sleep: Ctrl-C has come before it could

_written_late: list[object] = []  # memory that a device which stands still has been told to write to


class Stream:
    """Posts requests as far as the queues have room, keeps the rest, and ends requests as their completions come.

    submit() never blocks. Never more is under way than the send queue holds, so that no queue can overflow.
    `failure` gives the exception of a completion, `missing` the ranks that it names. All methods may be called by any
    thread; `lock`, `outstanding` and `stopped` are for its Questions and its FastPath.
    """

    __slots__ = "__dict__", "__weakref__", "stopped"  # the driver core looks at this one (again.py)

    def __init__(
        self,
        qp: CollectiveQP,
        cq: CQ,
        rank: int,
        failure: Callable[[Request, WC], FaninError],
        missing: Callable[[WC], tuple[int, ...]],
    ) -> None:
        self.rank = rank
        self._qp, self._cq = qp, cq
        self.lock = threading.RLock()
        self._awake = threading.Condition(self.lock)
        self._sleepers = 0
        self.stopped = self._closed = False
        self.outstanding: dict[int, Posting] = {}  # by wr_id, ascending
        self._completions = Completions(self, cq, failure)
        self._backlog: deque[Request] = deque()
        self._next: tuple[int, Posting] | None = None  # wr_id and what is about to be posted, or has just been
        self.questions = Questions(self, qp, missing)
        self._posted = 0  # requests, ever, but for those that the driver core has begun
        self.fast = FastPath(self, qp)

    def submit(self, *requests: Request) -> None:
        """Take requests, one after the other; they are posted now or when there is room.

        While another thread is in a long call whose parts come and go, it is waited for.
        """
        with self.lock:
            if self.stopped:
                raise InvalidRequest("the communicator is closed", remedy="Make a new one.")
            busy.add(self)  # first: Ctrl-C may come between, and what waits must not be overtaken
            self._backlog.extend(requests)
            self.advance()

    def wqe_of(self, work: CollectiveWR) -> Any:
        """A work request of this stream as a struct fanin_wqe."""
        return self._qp.wqe_of(work)

    @property
    def c(self) -> Any:
        """Its struct fanin_stream."""
        return self._qp.c

    def segment_of(self, work: CollectiveWR) -> int:
        """Bytes of the segments of a work request of this stream."""
        return self._qp.segment_of(work)

    @property
    def has_backlog(self) -> bool:
        """Whether something has not been posted yet."""
        return bool(self._backlog) or self.fast.has_more_to_post

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, and something may be posted."""
        return not (self.outstanding or self._backlog or self._completions or self._next or self.stopped)

    def enter(self, request: Request, postings: dict[int, Posting], prepared: Prepared) -> None:
        """Enter what the fast path has posted of a request. `prepared` posts what is left. Once more is as good as
        once."""
        request.resume(prepared.c)
        self.outstanding.update(postings)
        if not request.is_posted and request not in self._backlog:
            request.prepared = prepared
            self._backlog.appendleft(request)  # what was submitted since then comes behind it
        busy.add(self)

    def complete(self, completion: WC) -> None:
        """Take a completion of what was entered."""
        self._completions.complete(completion)

    def advance(self) -> None:
        """Take completions and post what has waited for room, without blocking."""
        with self.lock:
            if self._closed:
                return
            self.fast.settle()
            self._enter_next()
            try:
                self._completions.take()
                self._post_backlog()
            except (DeviceLost, CqOverrun) as error:
                self.fail_all(error)
            if self.outstanding or self._backlog:
                busy.add(self)  # again where a signal handler came between two steps of `submit`, and took it out
            else:
                busy.discard(self)

    def _post_backlog(self) -> None:
        while self._has_more_to_post() and not self.stopped and len(self.outstanding) < SQ_DEPTH - QUESTIONS:
            request = self._backlog[0]
            if request.must_follow and any(posting.finishes_on_host for posting in self.outstanding.values()):
                return
            try:
                if not request.prepare():
                    return
                self._post_next(request)
            except (DeviceLost, CqOverrun):
                raise
            except Exception as error:  # also of memory for a result: whoever waits for the request gets it
                request.finish(error)

    def _has_more_to_post(self) -> bool:
        """Let go of what needs not be posted any more, and say whether anything is left."""
        while self._backlog and (self._backlog[0].done or self._backlog[0].is_posted):
            self._backlog.popleft()
        return bool(self._backlog)

    def _post_next(self, request: Request) -> None:
        """Post the next work of a request. One without works takes no position of the job's stream: it is counted."""
        work = request.works[request.started] if request.works else None
        agreement, positions = (work.agreement, self._qp.positions_of(work)) if work else (0, 0)
        last = request.started + 1 >= len(request.works)
        mid = self._qp.mid | agreement << MID_BITS
        wr_id = request.first_id + request.started if request.started else self._qp.take_ids(len(request.works))
        self._next = wr_id, Posting(request, mid, positions, last, request.call, request.started)
        try:
            if work is None:
                self._qp.skip_message()
            else:
                self._post(request, work, wr_id)
        finally:
            self._enter_next()

    def _post(self, request: Request, work: CollectiveWR, wr_id: int) -> None:
        if request.prepared is None:
            work.wr_id = wr_id
            self._qp.post_send(work)
            return
        c = request.prepared.c
        c.first_id, c.posted = wr_id - request.started, request.started
        if status := self._qp.post_part(c):
            check(status, f"can not post {request}")

    def _enter_next(self) -> None:
        """Enter what was about to be posted, if it has been: then the queue pair has counted its message."""
        if self._next is None:
            return
        wr_id, posting = self._next
        if posting.mid % MESSAGES != self._qp.mid:
            self._enter(wr_id, posting)
        self._next = None

    def _enter(self, wr_id: int, posting: Posting) -> None:
        request = posting.request
        if not request.works:
            request.finish()
            return
        if request.started == 0:
            request.first_id = wr_id - posting.number
            self._posted += 1
        request.started = posting.number + 1
        self.outstanding[wr_id] = posting

    def finish(self, prepared: Prepared, timeout: float | None, patience: float = 0) -> Request | bool:
        """Wait until what the fast path has begun has ended: True: well. False: it was not under way. Else the request
        that stands for it. Timeout as of `wait_for`. patience: seconds that it is worth to keep the lock at first."""
        deadline = _deadline(timeout)
        outcome = self._finish_fast(prepared, deadline, patience)
        if isinstance(outcome, Request):
            self._wait_for(outcome, timeout, deadline)
        return outcome

    def _finish_fast(self, prepared: Prepared, deadline: float, patience: float) -> Request | bool:
        while True:
            with self.lock:
                outcome = self.fast.finish(prepared, min(patience, max(0, deadline - time.monotonic())))
                patience = 0
                left = deadline - time.monotonic()
                if outcome is None and left <= 0:
                    outcome = self.fast.settle()
                if outcome is not None:
                    return outcome
                seen = self.fast.seen
                self._sleepers += 1
            try:
                self._sleep(seen, left)
            finally:
                self._wake()

    def wait_for(self, request: Request, timeout: float | None) -> None:
        """Wait until `request` has ended; Timeout after `timeout` seconds, and the request goes on."""
        self._wait_for(request, timeout, _deadline(timeout))

    def _wait_for(self, request: Request, timeout: float | None, deadline: float) -> None:
        if not self._wait_until(lambda: request.done, deadline):
            raise Timeout(f"{request} is still under way after {timeout:g} s")

    def wait_until(self, reached: Callable[[], bool], timeout: float | None) -> bool:
        """False when `timeout` seconds have passed before."""
        return self._wait_until(reached, _deadline(timeout))

    def _wait_until(self, reached: Callable[[], bool], deadline: float) -> bool:
        while True:
            with self.lock:
                self.advance()
                if reached():
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                seen = self._cq.seen
                self._sleepers += 1
            try:
                self._sleep(seen, left)
            finally:
                self._wake()

    def _sleep(self, seen: int, left: float) -> None:
        """Until a completion comes. Streams that ranks use in opposite order must not block each other's posts."""
        others = [other for other in stalled() if other is not self]
        for other in others:
            other.advance()
        # A lost device is reported by the next look at the queue, after what is left in it.
        with contextlib.suppress(DeviceLost, CqOverrun):
            self._cq.wait(min(left, BACKLOG_SLICE if others else CLOSE_SLICE), seen)

    def _wake(self) -> None:
        with self.lock:
            self._sleepers -= 1
            self._awake.notify_all()

    def under_way(self) -> list[Request]:
        """Requests that have not ended, in order."""
        with self.lock:
            self.advance()
            return [request for request in self._unfinished() if not request.internal]

    def progress_of(self, requests: Sequence[Request]) -> list[Progress]:
        """How far requests are, as the device says; Timeout if it does not answer."""
        return self.questions.progress_of(requests)

    def stop(self) -> None:
        """Post nothing more, whichever thread waits: the job is about to be left."""
        with self.lock:
            self.advance()
            self.stopped = True

    def close(self, error: FaninError) -> None:
        """End everything with `error`; returns when no thread sleeps on the completion queue any more."""
        with self.lock:
            self.stopped = self._closed = True
            self.fail_all(error)
            self._awake.wait_for(lambda: self._sleepers == 0, CLOSE_SECONDS)

    def fail_all(self, error: FaninError) -> None:
        """End everything that is under way or waits, with an exception of the kind of `error`."""
        with self.lock:
            if self._qp.context.device_stands_still:  # one day it may go on, and write
                _written_late.extend(self.memory_under_way())
            for request in self._unfinished():
                request.finish(FaninError.of(error.status, f"{request}: {error.detail}"))
            self.outstanding.clear()
            self._backlog.clear()
            busy.discard(self)

    def _unfinished(self) -> list[Request]:
        posted = [posting.request for posting in self.outstanding.values()]
        return [request for request in dict.fromkeys([*posted, *self._backlog]) if not request.done]

    def memory_under_way(self) -> list[object]:
        """What keeps the memory alive that the device may still write to."""
        with self.lock:
            return [posting.call for posting in self.outstanding.values()]

    def counts(self) -> dict[str, int]:
        """How many requests were posted, are under way, and wait for room."""
        with self.lock:
            self.fast.settle()
            outstanding = {posting.request for posting in self.outstanding.values()}
            posted = self._posted + self._qp.c.begun
            return {"posted": posted, "outstanding": len(outstanding), "backlog": len(self._backlog)}


def _deadline(timeout: float | None) -> float:
    """By time.monotonic()."""
    return math.inf if timeout is None else time.monotonic() + timeout
