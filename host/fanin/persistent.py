"""Persistent: a collective prepared once and started any number of times."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any, Self

from fanin.call import Call
from fanin.errors import InvalidRequest
from fanin.member import Member
from fanin.prepared import Repeated, is_one_message
from fanin.progress import Progress
from fanin.request import Request
from fanin.seconds import require_seconds


class Persistent:
    """Made by the `..._init` forms: the same arrays each time; start() only posts what was prepared.

    It has a stream of its own (a job that was joined when it was made), so that ranks may start several of them in
    different orders; unless it was made `ordered`: then it is one of the communicator's collectives, in their order.
    `with` and close() leave the job; the communicator does so, too, when it is closed.
    """

    def __init__(self, member: Member, call: Call, own: bool) -> None:
        self._member, self._call, self.own = member, call, own
        self._works = member.compose(call)
        self._repeated: Repeated | None = None
        if is_one_message(call, self._works) and not call.on_host and call.conclude is None:
            self._repeated = self._new()
        self._request: Request | None = None  # of the last start, unless that went the fast path
        self._is_begun = False  # the last start goes the fast path, and is not known to have ended
        self._is_started = False
        self.closed = False

    def _new(self) -> Repeated:
        return Repeated(self._call, self._works, self._member.stream, self._member.attachment.context.regions)

    def start(self) -> Self:
        """Start it, with what the arrays hold now. InvalidRequest while the last start is still under way."""
        stream = self._member.stream
        with stream.lock:
            self._require_ended()
            if self.closed:
                raise InvalidRequest(f"{self} is closed", remedy="Make a new one.")
            self._member.require_open()
            if self._repeated is not None and self._begin(self._repeated):
                return self
            request = Request(stream, self._call, self._works)
            self._request, self._is_started = request, True
            self._is_begun = False  # last: until then whoever looks finds that nothing was posted
            stream.submit(request)
        return self

    def _begin(self, repeated: Repeated) -> bool:
        """Start it on the fast path; False: it was not begun. Ctrl-C may come between any two steps: `_look` says then
        what became of them. Who still waits for the last start keeps what stands for that."""
        if repeated.waiters:
            repeated = self._repeated = self._new()
        repeated.reset()
        self._is_begun = True
        self._request, self._is_started = None, True
        return self._member.stream.fast.begin(repeated)

    def wait(self, timeout: float | None = None) -> Any:
        """The result of the last start, as of Request.wait."""
        require_seconds(timeout)
        outcome = self._finish(timeout)
        request = None if outcome is True else outcome or self._last()
        return self._call.result if request is None else request.wait(timeout)

    def _finish(self, timeout: float | None) -> Request | bool:
        """Wait for the last start, if it goes the fast path, as of Stream.finish. When its end is known, another thread
        may have started the next one."""
        stream = self._member.stream
        with stream.lock:
            repeated = self._repeated
            if repeated is None or not self._is_begun:
                return False
            repeated.waiters += 1
        try:
            return stream.finish(repeated, timeout, patience=math.inf)
        finally:
            with stream.lock:
                repeated.waiters -= 1
                self._look()

    def test(self) -> bool:
        """Whether the last start has ended, as of Request.test."""
        request = self._last(enter=True)
        return request is None or request.test()

    def progress(self) -> Progress:
        """How far the last start is, as of Request.progress."""
        request = self._last(enter=True)
        if request is None:
            request = Request(self._member.stream, self._call, self._works)
            request.segments_done = self._member.positions_of(self._call)
        return request.progress()

    @property
    def under_way(self) -> bool:
        """Whether it was started and has not been seen to end."""
        return self._is_begun or (self._request is not None and not self._request.done)

    def _look(self) -> None:
        """See whether the last start has left the fast path: for the usual way, or since it is done."""
        repeated = self._repeated
        if not self._is_begun or repeated is None:
            return
        if repeated.entered is not None:
            self._request, self._is_begun = repeated.entered, False
        elif not self._member.stream.fast.holds(repeated):
            self._is_started = repeated.c.posted > 0  # else Ctrl-C came before it was posted
            self._request, self._is_begun = None, False

    def _require_ended(self) -> None:
        if self._is_begun or self._request is not None:
            self._member.stream.advance()
            self._look()
        if self.under_way:  # how it ended does not matter: its exception was for whoever waited for it
            raise InvalidRequest(f"{self._request} is still under way", remedy="Wait for it before you start it again.")

    def _last(self, enter: bool = False) -> Request | None:
        """The request of the last start; None if it has ended well on the fast path. enter: not to go on there."""
        if not self._is_started:
            raise InvalidRequest(f"{self._call} has not been started", remedy="Call start() first.")
        with self._member.stream.lock:
            if enter and self._is_begun:
                self._member.stream.advance()
            self._look()
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
