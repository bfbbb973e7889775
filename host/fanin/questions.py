"""Questions: how far the requests of a stream are, asked of the device while they are under way (step S6)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fanin.call import Call
from fanin.errors import Timeout
from fanin.progress import Progress
from fanin.request import Request
from fanin.verbs import WC, CollectiveQP
from fanin_wire.abi import Status

if TYPE_CHECKING:
    from fanin.stream import Stream

ANSWER_SECONDS = 5.0  # a living device answers a question in microseconds
QUESTIONS = 16  # entries of the send queue that are kept free, so that a question always gets through


class Posting(NamedTuple):
    """A work request that the device has and whose end is not known."""

    request: Request
    mid: int
    positions: int
    last: bool  # of the request
    call: Call | None  # keeps its memory alive, also when the request has failed before all was posted
    number: int = 0  # of the request's works

    @property
    def finishes_on_host(self) -> bool:
        """Whether its result is where it belongs only when the host has done its part."""
        return self.call is not None and (self.call.staged is not None or self.call.conclude is not None)


class Questions:
    """Asks about requests of `stream`, which puts the answers into `answers`. `missing`: ranks that an answer names."""

    def __init__(self, stream: Stream, qp: CollectiveQP, missing: Callable[[WC], tuple[int, ...]]) -> None:
        self._stream, self._qp, self._missing = stream, qp, missing
        self._asking = threading.Lock()  # one thread asks at a time: there is room for QUESTIONS in the queues
        self.answers: dict[int, WC] = {}  # by wr_id of what is asked about

    def progress_of(self, requests: Sequence[Request]) -> list[Progress]:
        """How far requests are, by questions to the device; without numbers while their sizes are still to come.

        Timeout if it does not answer.
        """
        with self._asking:
            with self._stream.lock:
                self._stream.advance()
                current = [request.current() for request in requests]
                asked = [wr_id for wr_id, posting in self._stream.outstanding.items() if posting.request in current]
            answers: dict[int, WC] = {}
            for start in range(0, len(asked), QUESTIONS):
                answers |= self._ask(asked[start : start + QUESTIONS])
            with self._stream.lock:
                found = [self._progress(request, answers) for request in current]
            return [
                progress if now is request else progress._replace(name=request.name, done=0, segments=0)
                for request, now, progress in zip(requests, current, found, strict=True)
            ]

    def _ask(self, asked: list[int]) -> dict[int, WC]:
        """Answers about outstanding work requests, by wr_id; what has ended meanwhile may lack one."""
        with self._stream.lock:
            self.answers.clear()
            open_ids = () if self._stream.stopped else asked
            postings = {
                wr_id: self._stream.outstanding[wr_id] for wr_id in open_ids if wr_id in self._stream.outstanding
            }
            for wr_id, posting in postings.items():
                self._qp.post_query(posting.mid, wr_id)
        known = self._stream.wait_until(
            lambda: all(wr_id in self.answers or posting.request.done for wr_id, posting in postings.items()),
            ANSWER_SECONDS,
        )
        if not known:
            raise Timeout(f"the device has not answered a query within {ANSWER_SECONDS:g} s")
        return dict(self.answers)

    def _progress(self, request: Request, answers: dict[int, WC]) -> Progress:
        segments = sum(self._qp.positions_of(work) for work in request.works)
        done = request.segments_done
        waiting_for: tuple[int, ...] = ()
        for wr_id, posting in self._stream.outstanding.items():
            answer = answers.get(wr_id)
            if posting.request is not request or answer is None:
                continue
            done += posting.positions if answer.status == Status["SUCCESS"] else answer.positions
            if not waiting_for:  # its own data may not have been read yet, but it has posted
                waiting_for = tuple(rank for rank in self._missing(answer) if rank != self._stream.rank)
        return Progress(request.name, done, segments, waiting_for)
