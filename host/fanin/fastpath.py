"""Fast path: one prepared request of a stream at a time, begun and finished by the driver core.

Such a request is not in the books of its stream. Whoever opens them first enters it there (`settle`), and it goes on
like all others: that is so when something else is called, and when it has failed. Whoever waits for a long one sleeps
without the lock (`Stream.finish`), so that others can. Ctrl-C may come between any two steps: what has been posted is
always here or in the books, and its stream among the busy ones; but for what the driver core does alone (`again.py`),
with the lock, in one step.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from fanin.busy import busy, stalled
from fanin.driver import ffi
from fanin.questions import Posting
from fanin.request import Request
from fanin.verbs import WC, CollectiveQP
from fanin.verbs.collective_qp import MESSAGES
from fanin_wire.abi import Status

if TYPE_CHECKING:
    from fanin.stream import Stream

PATIENCE_MS = 10  # in the driver core, with the lock; then other streams are looked after, and signals
PROGRESS = ffi.typeof("enum fanin_progress").relements
PENDING = int(Status["PENDING"])
PREPARED, POSTED, COMPLETE = (PROGRESS[f"FANIN_{name}"] for name in ("PREPARED", "POSTED", "COMPLETE"))


class Prepared(Protocol):
    """One time that a prepared request is done. `c`: its struct fanin_prepared, of which nothing is under way yet."""

    c: Any
    entered: Request | None  # the usual request that stands for it since it was entered

    def request(self, stream: Stream) -> Request:
        """A usual request for it."""


class FastPath:
    """The fast path of one stream; all methods are called with its lock held."""

    __slots__ = "_qp", "_stream", "current"

    def __init__(self, stream: Stream, qp: CollectiveQP) -> None:
        self._stream, self._qp = stream, qp
        # Begun, or left there by an exception. The driver core looks, too, and puts there what it has begun (again.c).
        self.current: Prepared | None = None

    def call(self, prepared: Prepared) -> Request | bool | None:
        """Do it now and wait a little. True: it is done. False: it was not begun, for other things are under way. None:
        it takes longer. Else it has failed, or others must be looked after: the request that stands for it. For one
        that was not entered before."""
        stream = self._stream
        # A stream that has anything under way is among the busy ones; mostly there are none, and no more to look at.
        if self.current is not None or stream.stopped or (busy and not (stream.is_idle and not stalled())):
            return False
        try:
            self.current = prepared
            status = self._qp.call(prepared.c, PATIENCE_MS)
            if status and (status := self._go_on(prepared, status, 0)):
                busy.add(stream)
                return None if self._may_take_longer(prepared, status) else self._usual(prepared)
            self.current = None
        except BaseException:
            busy.add(stream)
            raise
        return True

    def _go_on(self, prepared: Prepared, status: int, ended: int) -> int:
        """Its status, which was `status`, with `ended` parts before that. While part after part ends they are waited
        for here, but not for so long that others never get the lock."""
        c, until = prepared.c, time.monotonic() + PATIENCE_MS / 1000
        while c.ended > ended and time.monotonic() < until and self._may_take_longer(prepared, status):
            ended = c.ended
            status = self._qp.finish(c, PATIENCE_MS)
        return status

    def _may_take_longer(self, prepared: Prepared, status: int) -> bool:
        """Whether it goes on here: it is under way, and no other stream waits to be looked after. What a signal handler
        has entered is not taken from the books."""
        return status == PENDING and self.current is prepared and not self._others_are_stalled()

    def _others_are_stalled(self) -> bool:
        return any(stream is not self._stream for stream in stalled())

    def begin(self, prepared: Prepared) -> bool:
        """Post it. False: it was not begun. It has been reset."""
        if self.current is not None or not self._stream.is_idle:
            return False
        busy.add(self._stream)  # whoever is told False submits something there, which sees to it that it is taken out
        self.current = prepared
        if self._qp.begin(prepared.c) and prepared.c.progress == PREPARED:
            self.current = None
            return False
        return True

    def finish(self, prepared: Prepared, patience: float) -> Request | bool | None:
        """Wait a little for what was begun, no longer than `patience` seconds. As `call`; False: it is not under
        way."""
        if self.current is not prepared:
            return prepared.entered or False
        if prepared.entered or self._others_are_stalled():
            return self._usual(prepared)
        ended = prepared.c.ended
        status = self._qp.finish(prepared.c, int(min(PATIENCE_MS, patience * 1000)))
        if status := self._go_on(prepared, status, ended):
            return None if self._may_take_longer(prepared, status) else self._usual(prepared)
        self.current = None
        self._look_after()
        return True

    def _usual(self, prepared: Prepared) -> Request | bool:
        """The usual request for it, entered here or by a signal handler; False: nothing of it was posted."""
        if self.current is prepared:
            self.settle()
        return prepared.entered or False

    def _look_after(self) -> None:
        """Nobody needs to look after the stream any more, unless there is more: a signal handler may have begun it."""
        if self._stream.is_idle:
            busy.discard(self._stream)

    @property
    def seen(self) -> int:
        """Completions taken so far, mod 2^32, as of the last look here."""
        return int(self._qp.c.seen)

    def holds(self, prepared: Prepared) -> bool:
        """Whether it is begun, and neither done nor wholly entered."""
        return self.current is prepared

    @property
    def has_more_to_post(self) -> bool:
        """Whether parts of what is begun wait for room."""
        current = self.current  # once: other threads ask as well, without the lock
        return current is not None and current.c.progress == POSTED and current.c.posted < current.c.parts

    def settle(self) -> Request | None:
        """Enter what is begun into the books of the stream; None if nothing is. Interrupted, it can be called again."""
        prepared = self.current
        if prepared is None:
            return None
        if prepared.c.progress != PREPARED:
            if prepared.entered is None:
                prepared.entered = prepared.request(self._stream)
            self._enter(prepared, prepared.entered)
        self.current = None  # last: until then nobody else may know of it
        self._look_after()
        return prepared.entered

    def _enter(self, prepared: Prepared, request: Request) -> None:
        c = prepared.c
        positions = [self._qp.positions_of(work) for work in request.works]
        parts = range(c.ended, c.posted)
        postings = {c.first_id + part: posting_of(c, part, request, positions[part], self._qp.mid) for part in parts}
        self._stream.enter(request, postings, prepared)
        request.segments_done = sum(positions[: c.ended])
        if c.progress == COMPLETE:
            self._stream.complete(WC.of(self._qp.c.cqe))


def posting_of(c: Any, number: int, request: Request, positions: int, mid: int) -> Posting:
    """A part of what a struct fanin_prepared stands for. mid: the count of the message after the last one posted."""
    whole = c.wqe.mid & ~(MESSAGES - 1) | (mid - (c.posted - number)) % MESSAGES
    return Posting(request, whole, positions, number + 1 == c.parts, request.call, number)
