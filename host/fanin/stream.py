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
from fanin.driver import check
from fanin.errors import CqOverrun, DeviceLost, FaninError, InvalidRequest, Timeout
from fanin.fastpath import FastPath
from fanin.progress import Progress
from fanin.questions import QUESTIONS, Posting, Questions
from fanin.request import Request
from fanin.verbs import CQ, WC, CollectiveQP, CollectiveWR
from fanin.verbs.collective_qp import MODULUS
from fanin_wire.abi import SQ_DEPTH, WqeOpcode

BACKLOG_SLICE = 0.002  # seconds between looks at other streams that could not post all yet
CLOSE_SLICE = 0.1  # seconds that a sleeper may need to see that the stream is closed
BATCH = 64
QUERY = int(WqeOpcode["QUERY"])

_written_late: list[object] = []  # memory that a device which stands still has been told to write to


class Stream:
    """Posts requests as far as the queues have room, keeps the rest, and ends requests as their completions come.

    submit() never blocks. Never more is under way than the send queue holds, so that no queue can overflow.
    `failure` gives the exception of a completion, `missing` the ranks that it names. All methods may be called by any
    thread; `lock`, `outstanding`, `stopped` and `posted` are for its Questions and its FastPath.
    """

    def __init__(
        self,
        qp: CollectiveQP,
        cq: CQ,
        rank: int,
        failure: Callable[[Request, WC], FaninError],
        missing: Callable[[WC], tuple[int, ...]],
    ) -> None:
        self.rank = rank
        self._qp, self._cq, self._failure = qp, cq, failure
        self.lock = threading.RLock()
        self._awake = threading.Condition(self.lock)
        self._sleepers = 0
        self.stopped = self._closed = False
        self.outstanding: dict[int, Posting] = {}  # by wr_id, ascending
        self._taken: deque[WC] = deque()  # not looked at yet: Ctrl-C may come between two of a batch
        self._backlog: deque[Request] = deque()
        self._questions = Questions(self, qp, missing)
        self._next_id = 0
        self.posted = 0  # requests, ever
        self.fast = FastPath(self, qp)

    def submit(self, *requests: Request) -> None:
        """Take requests, one after the other; they are posted now or when there is room."""
        with self.lock:
            if self.stopped:
                raise InvalidRequest("the communicator is closed", remedy="Make a new one.")
            self._backlog.extend(requests)
            busy.add(self)
            self.advance()

    def wqe_of(self, work: CollectiveWR) -> Any:
        """A work request of this stream as a struct fanin_wqe."""
        return self._qp.wqe_of(work)

    @property
    def has_backlog(self) -> bool:
        """Whether something has not been posted yet."""
        return bool(self._backlog)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way, and something may be posted."""
        return not (self.outstanding or self._backlog or self._taken or self.stopped)

    def take_id(self) -> int:
        """The wr_id of the next work request."""
        self._next_id += 1
        return self._next_id

    def enter(self, request: Request, wqe: Any, completion: WC | None) -> None:
        """Enter what the fast path has posted, and perhaps has the completion of. Once more is as good as once."""
        if request.done:
            return
        if request.started == 0:
            request.started, request.first_id = 1, wqe.wr_id
            self.posted += 1
        self.outstanding[wqe.wr_id] = Posting(request, wqe.mid, wqe.segments, True, request.call)
        busy.add(self)
        if completion is not None:
            self._complete(completion)

    def advance(self) -> None:
        """Take completions and post what has waited for room, without blocking."""
        with self.lock:
            if self._closed:
                return
            self.fast.settle()
            try:
                self._take_completions()
                self._post_backlog()
            except (DeviceLost, CqOverrun) as error:
                self.fail_all(error)
            if not self.outstanding and not self._backlog:
                busy.discard(self)

    def _take_completions(self) -> None:
        count = BATCH
        while count == BATCH:
            count, completions = self._cq.poll(BATCH)
            self._taken.extend(completions)
            while self._taken:
                completion = self._taken.popleft()
                if completion.opcode == QUERY:
                    self._questions.answers[completion.wr_id] = completion
                else:
                    self._complete(completion)

    def _complete(self, completion: WC) -> None:
        posting = self.outstanding.pop(completion.wr_id, None)
        if posting is None:  # it was given up when the device seemed lost
            return
        request = posting.request
        for silent in range(request.first_id, completion.wr_id):  # parts before it, which end in order
            earlier = self.outstanding.pop(silent, None)
            request.segments_done += earlier.positions if earlier else 0
        if completion.status:
            request.note(self._failure(request, completion))
        else:
            request.segments_done += posting.positions
        if posting.last:
            request.finish()

    def _post_backlog(self) -> None:
        while self._backlog and not self.stopped and len(self.outstanding) < SQ_DEPTH - QUESTIONS:
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
            finally:
                if request.done or 0 < len(request.works) == request.started:
                    self._backlog.popleft()

    def _post_next(self, request: Request) -> None:
        if not request.works:  # takes no position of the job's stream: there is nothing for the device to do
            self._qp.skip_message()
            request.finish()
            return
        wr_id = self.take_id()
        mid, positions = self._post(request, wr_id)
        if request.started == 0:
            request.first_id = wr_id
            self.posted += 1
        request.started += 1
        last = request.started == len(request.works)
        self.outstanding[wr_id] = Posting(request, mid, positions, last, request.call)

    def _post(self, request: Request, wr_id: int) -> tuple[int, int]:
        """Post the next work of a request; its message number, and how many positions of the job's stream it takes."""
        if request.prepared is not None:
            request.prepared.aim()
            wqe = request.prepared.c.wqe
            wqe.wr_id = wr_id
            if status := self._qp.begin(request.prepared.c):
                check(status, f"can not post {request}")
            return wqe.mid, wqe.segments
        work = request.works[request.started]
        work.wr_id, position = wr_id, self._qp.position
        mid = self._qp.post_send(work)
        return mid, (self._qp.position - position) % MODULUS

    def wait_for(self, request: Request, timeout: float | None) -> None:
        """Wait until `request` has ended; Timeout after `timeout` seconds, and the request goes on."""
        if not self.wait_until(lambda: request.done, timeout):
            raise Timeout(f"{request} is still under way after {timeout:g} s")

    def wait_until(self, reached: Callable[[], bool], timeout: float | None) -> bool:
        """False when `timeout` seconds have passed before."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
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
        return self._questions.progress_of(requests)

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
            self._awake.wait_for(lambda: self._sleepers == 0)

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
            return {"posted": self.posted, "outstanding": len(outstanding), "backlog": len(self._backlog)}
