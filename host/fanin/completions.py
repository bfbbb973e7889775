"""Completions: the ends of a stream's work requests, as they come from the device, taken to the program's requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from fanin.errors import FaninError
from fanin.request import Request
from fanin.verbs import CQ, WC
from fanin_wire.abi import WqeOpcode

if TYPE_CHECKING:
    from fanin.stream import Stream

BATCH = 64
QUERY = int(WqeOpcode["QUERY"])


class Completions:
    """Takes the completions of `stream`, with its lock held. `failure` gives the exception of one.

    Ctrl-C may come between any two steps: what is interrupted is done again, and a completion is let go of last.
    """

    def __init__(self, stream: Stream, cq: CQ, failure: Callable[[Request, WC], FaninError]) -> None:
        self._stream, self._cq, self._failure = stream, cq, failure
        self._taken: deque[WC] = deque()  # from the queue, and not done with

    def __bool__(self) -> bool:
        return bool(self._taken)

    def take(self) -> None:
        """All that have come."""
        count = BATCH
        while count == BATCH or self._taken:
            while self._taken:
                self._complete_first()
            if count == BATCH:
                count = self._cq.poll_into(self._taken)

    def _complete_first(self) -> None:
        """A signal handler may do so at any step."""
        try:
            completion = self._taken[0]
        except IndexError:
            return
        self._complete_one(completion)
        if self._taken and self._taken[0] is completion:
            self._taken.popleft()

    def _complete_one(self, completion: WC) -> None:
        if completion.opcode == QUERY:
            self._stream.questions.answers[completion.wr_id] = completion
        else:
            self.complete(completion)

    def complete(self, completion: WC) -> None:
        """A work request has ended, and with it those before it of its request that were silent."""
        posting = self._stream.outstanding.get(completion.wr_id)
        if posting is None:  # it was given up when the device seemed lost
            return
        request = posting.request
        if completion.status:
            request.note(self._failure(request, completion), posting.number)
        else:
            request.end_part(posting.number)
        if posting.last:
            request.finish()
        self._forget(request, completion)

    def _forget(self, request: Request, completion: WC) -> None:
        """Those before it end in order, so they have succeeded. It is the last to go."""
        for wr_id in range(request.first_id, completion.wr_id + 1):
            posting = self._stream.outstanding.pop(wr_id, None)
            if posting is not None and not (wr_id == completion.wr_id and completion.status):
                request.segments_done += posting.positions
