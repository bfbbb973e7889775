"""Exceptions: one class for each status, such as PeerLost for PEER_LOST.

The text is `NAME: event. Remedy.` The table of fanin_wire has the event and remedy of errors without their own.
"""

from __future__ import annotations

from typing import ClassVar

from fanin_wire.abi import Status
from fanin_wire.status import status_entry


class FaninError(Exception):
    """Base of all. `status`: code of enum fanin_status. `detail`: the event. `remedy`: what to do."""

    default_status: ClassVar[int | None] = None
    by_status: ClassVar[dict[int, type[FaninError]]] = {}

    def __init__(self, detail: str = "", status: int | None = None, remedy: str = "") -> None:
        code = status if status is not None else self.default_status
        entry = status_entry(Status.INVALID_REQUEST if code is None else code)
        self.status = entry.code
        self.detail = detail
        self.remedy = remedy or entry.remedy
        self.missing_ranks: tuple[int, ...] = ()  # ranks of the job that were waited for
        self.lost_device = ""  # address of the switch or NIC that does not answer, or to which no data pass
        happened = detail or entry.meaning
        sentence = happened if happened.endswith((".", "?", "!")) else f"{happened}."
        super().__init__(f"{entry.name}: {sentence} {self.remedy}")

    @classmethod
    def of(cls, status: int, detail: str = "", remedy: str = "") -> FaninError:
        """The exception for a status code; FaninError itself for a code that this version does not know."""
        return cls.by_status.get(int(status), FaninError)(detail, int(status), remedy)


class Pending(FaninError): ...


class SegmentBufferError(FaninError): ...  # Python has a BufferError of its own


class LocalProtectionError(FaninError): ...


class PeerLost(FaninError, ConnectionError): ...


class Timeout(FaninError, TimeoutError): ...


class OpMismatch(FaninError): ...


class NotConfigured(FaninError): ...


class JidInUse(FaninError): ...


class NoResources(FaninError): ...


class TooFewLanes(FaninError): ...


class Aborted(FaninError): ...


class Flushed(FaninError): ...


class NotSupported(FaninError, NotImplementedError):
    """Not implemented. `reason`: the code under which a reduction was counted, or ""."""

    def __init__(self, detail: str = "", status: int | None = None, remedy: str = "", reason: str = "") -> None:
        super().__init__(detail, status, remedy)
        self.reason = reason


class InvalidRequest(FaninError, ValueError): ...


class VersionMismatch(FaninError): ...


class DeviceLost(FaninError, ConnectionError): ...


class QueueFull(FaninError): ...


class NoDevice(FaninError, ConnectionError): ...


class PermissionDenied(FaninError, PermissionError): ...


class MembersMismatch(FaninError): ...


class CqOverrun(FaninError): ...


class Draining(FaninError): ...


class PathMtu(FaninError): ...


class DriverMissing(NotSupported):
    """The driver core (a shared library) is not built or can not be loaded."""


_STATUSES = {status.name.title().replace("_", ""): status for status in Status}  # "PeerLost": PEER_LOST
for _kind in FaninError.__subclasses__():
    _entry = status_entry(_STATUSES[_kind.__name__.removeprefix("Segment")])
    _kind.default_status = _entry.code
    _kind.__doc__ = _kind.__doc__ or _entry.meaning
    FaninError.by_status[_entry.code] = _kind
