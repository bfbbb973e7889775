"""Request: a collective under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fanin.call import Call, Deferred
from fanin.errors import FaninError
from fanin.seconds import require_seconds
from fanin.verbs import CollectiveWR

if TYPE_CHECKING:
    from fanin.fastpath import Prepared
    from fanin.progress import Progress
    from fanin.stream import Stream

Compose = Callable[[Call], list[CollectiveWR]]


class Request:
    """Returned by the non-blocking collectives; its arrays must not be touched before it is done."""

    def __init__(self, stream: Stream, call: Call, works: list[CollectiveWR]) -> None:
        self.works = works
        self.started = 0  # of the works: how many have been posted
        self.first_id = 0  # wr_id of the first; the others follow it
        self.segments_done = 0  # of works that are known to be complete
        self.call: Call | None = call  # keeps its memory alive until the device is done with it
        self.prepared: Prepared | None = None  # what posts its works, with their data, if that is not to be done here
        self.internal = False  # the exchange before another request, which stands for both
        self._stream = stream
        self.name = call.name
        self._result = call.result
        self._done = False
        self._error: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.call or self.name} on rank {self._stream.rank}"

    @property
    def done(self) -> bool:
        """Whether it has ended, as far as seen; test() looks."""
        return self._done

    @property
    def is_posted(self) -> bool:
        """Whether all its works have been."""
        return 0 < len(self.works) == self.started

    @property
    def must_follow(self) -> bool:
        """Whether its input may be a result that is still to be copied to where it belongs."""
        return self.call is not None and self.started == 0 and self.call.fence

    def prepare(self) -> bool:
        """Whether its next work is there and may be posted. Called by the stream, as are all up to finish."""
        if self.call is None:
            return True
        if not self.call.has_room(self.started):
            return False
        if self.prepared is None:
            self.call.bring(self.started)
            if self.started and self.call.timeout is not None:
                self.works[self.started].deadline_ms = self.call.milliseconds_left()
        return True

    def current(self) -> Request:
        """What the device can be asked about now."""
        return self

    def resume(self, begun: Any) -> None:
        """Its works were begun elsewhere, as a struct fanin_prepared tells, and some may have ended there."""
        self.first_id, self.started = begun.first_id, begun.posted
        if self.call is not None:
            self.call.resume(begun.ended)

    def end_part(self, number: int) -> None:
        """Its work `number`, and those before it, are complete."""
        if self.call is not None:
            self.call.end_part(number)

    def note(self, error: FaninError, number: int) -> None:
        """Its work `number` has failed; the first failure counts."""
        self._error = self._error or error
        if self.call is not None:
            self.call.resume(number + 1)

    def finish(self, error: Exception | None = None) -> None:
        """End the request and let go of its memory."""
        self._error = self._error or error
        try:
            if self.call is not None:
                self.call.end(self._error)
        except BaseException as raised:  # of a function that the program gave as op: it gets it from wait()
            self._error = raised
            if not isinstance(raised, Exception):  # Ctrl-C is also for whoever runs now
                raise
        finally:
            self.call = self.prepared = None
            self._done = True

    def test(self) -> bool:
        """Whether it has ended, without waiting; raises the exception of a failed request."""
        if not self._done:
            self._stream.advance()
        if self._done:
            self._outcome()
        return self._done

    def wait(self, timeout: float | None = None) -> Any:
        """The result, when it is there: `out`, or a new array.

        Raises Timeout after `timeout` seconds (the request goes on and can be waited for again), or the exception of
        a failed request.
        """
        require_seconds(timeout)
        if not self._done:
            self._stream.wait_for(self, timeout)
        return self._outcome()

    def progress(self) -> Progress:
        """How far it is, and which ranks it waits for, as the device knows it now."""
        return self._stream.progress_of([self])[0]

    def _outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class DeferredRequest(Request):
    """Of a collective whose sizes another request brings first. Nothing behind it is posted before that is done."""

    def __init__(self, stream: Stream, deferred: Deferred, first: Request, compose: Compose) -> None:
        super().__init__(stream, deferred.first, [])
        self.name = deferred.name
        self._first, self._then, self._compose = first, deferred.then, compose
        self._is_composed = False
        first.internal = True

    def prepare(self) -> bool:
        """Make the works when the sizes are there. Raises what is wrong with the sizes or the arrays."""
        if self._first.done and not self._is_composed:
            self._first.wait()
            call = self._then()
            self.works = self._compose(call)
            self.call, self._result = call, call.result
            self._is_composed = True  # last: what has failed before is not taken for composed
        return self._is_composed and super().prepare()

    def current(self) -> Request:
        """The exchange, while the sizes are still to come."""
        return self if self._is_composed else self._first
