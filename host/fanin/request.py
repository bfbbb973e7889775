"""Request: a collective under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanin.buffers import Buffers
from fanin.errors import FaninError
from fanin.verbs import CollectiveWR

if TYPE_CHECKING:
    from fanin.stream import Stream


class Request:
    """Returned by the non-blocking collectives; its arrays must not be touched before it is done."""

    def __init__(self, stream: Stream, work: CollectiveWR, memory: Buffers, result: Any, description: str) -> None:
        self.work = work
        self.memory: Buffers | None = memory  # alive until the device is done with it
        self._stream = stream
        self._result = result
        self._description = description
        self._done = False
        self._error: FaninError | None = None

    def __str__(self) -> str:
        return self._description

    @property
    def done(self) -> bool:
        """Whether it has ended, as far as seen; test() looks."""
        return self._done

    def finish(self, error: FaninError | None = None) -> None:
        """End the request and let go of its memory. Called by the stream."""
        self._error, self.memory = error, None
        self._done = True

    def test(self) -> bool:
        """Whether it has ended, without waiting; raises the exception of a failed request."""
        if not self._done:
            self._stream.progress()
        if self._done:
            self._outcome()
        return self._done

    def wait(self, timeout: float | None = None) -> Any:
        """The result, when it is there: `out`, or a new array.

        Raises Timeout after `timeout` seconds (the request goes on and can be waited for again), or the exception of
        a failed request.
        """
        if not self._done:
            self._stream.wait_for(self, timeout)
        return self._outcome()

    def _outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result
