"""Persistent: a collective prepared once and started any number of times."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from fanin.call import Call
from fanin.errors import InvalidRequest
from fanin.member import Member
from fanin.progress import Progress
from fanin.request import Request


class Persistent:
    """Made by the `..._init` forms: the same arrays each time; start() only posts what was prepared.

    It has a stream of its own (a job that was joined when it was made), so that ranks may start several of them in
    different orders; unless it was made `ordered`: then it is one of the communicator's collectives, in their order.
    `with` and close() leave the job; the communicator does so, too, when it is closed.
    """

    def __init__(self, member: Member, call: Call, own: bool) -> None:
        self._member, self._call, self.own = member, call, own
        self._works = member.compose(call)
        self._request: Request | None = None
        self.closed = False

    def start(self) -> Self:
        """Start it, with what the arrays hold now. InvalidRequest while the last start is still under way."""
        self._require_ended()
        if self.closed:
            raise InvalidRequest(f"{self} is closed", remedy="Make a new one.")
        self._member.require_open()
        self._request = Request(self._member.stream, self._call, self._works)
        self._member.stream.submit(self._request)
        return self

    def wait(self, timeout: float | None = None) -> Any:
        """The result of the last start, as of Request.wait."""
        return self._started().wait(timeout)

    def test(self) -> bool:
        """Whether the last start has ended, as of Request.test."""
        return self._started().test()

    def progress(self) -> Progress:
        """How far the last start is, as of Request.progress."""
        return self._started().progress()

    @property
    def under_way(self) -> bool:
        """Whether it was started and has not been seen to end."""
        return self._request is not None and not self._request.done

    def _require_ended(self) -> None:
        self._member.stream.advance()
        if self.under_way:  # how it ended does not matter: its exception was for whoever waited for it
            raise InvalidRequest(f"{self._request} is still under way", remedy="Wait for it before you start it again.")

    def _started(self) -> Request:
        if self._request is None:
            raise InvalidRequest(f"{self._call} has not been started", remedy="Call start() first.")
        return self._request

    def close(self) -> None:
        """Leave the job of its stream. Harmless when called again."""
        self.end(leave=True)

    def end(self, leave: bool) -> None:
        """As close, or (not `leave`) without a word to the other ranks."""
        self.closed = True
        if self.own:
            self._member.end(leave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(leave=error is None)

    def __str__(self) -> str:
        return f"persistent {self._call}"
