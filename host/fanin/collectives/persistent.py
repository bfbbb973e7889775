"""Persistent: a collective prepared once and started any number of times."""

from types import TracebackType
from typing import Any, Self

from fanin.collectives.call import Call
from fanin.errors import InvalidRequest
from fanin.membership.member import Member
from fanin.membership.progress import Progress


class Persistent:
    """Made by the `..._init` forms: the same arrays each time.

    It has a stream (a job) of its own, so ranks may start several of them in different orders; an `ordered` one takes
    its turn among the communicator's collectives. close(), `with` and closing the communicator leave the job.
    """

    def __init__(self, member: Member, call: Call, own: bool) -> None:
        self._member, self._text, self.own = member, str(call), own
        self._request = member._prepare(call.arguments(member.rank))
        self._is_started = False
        self.closed = False

    def start(self) -> Self:
        """Start it, with the data that the arrays hold now. InvalidRequest if the last start is still under way."""
        if self.closed:
            raise InvalidRequest(f"{self} is closed", remedy="Make a new one.")
        self._member.require_open()
        if not self._request._restart():
            complaint = f"{self._text} on rank {self._member.rank} is still under way"
            raise InvalidRequest(complaint, remedy="Wait for it before you start it again.")
        self._is_started = True
        return self

    def wait(self, timeout: float | None = None) -> Any:
        """The result of the last start, as of Request.wait."""
        self._require_started()
        return self._request.wait(timeout)

    def test(self) -> bool:
        """Whether the last start has ended, as of Request.test."""
        self._require_started()
        return self._request.test()

    def progress(self) -> Progress:
        """How far the last start is, as of Request.progress."""
        self._require_started()
        return self._request.progress()

    @property
    def under_way(self) -> bool:
        """Whether it was started and has not been seen to end."""
        return self._is_started and not self._request.done

    def _require_started(self) -> None:
        if not self._is_started:
            raise InvalidRequest(f"{self._text} has not been started", remedy="Call start() first.")

    def close(self) -> None:
        """Leave the job of its stream. Harmless when called again."""
        self.end(leave=True)

    def end(self, leave: bool) -> None:
        """Close (`leave`) or abort."""
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
        return f"persistent {self._text}"
