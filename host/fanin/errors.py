"""Exceptions: one class for each status, so that programs can catch those that they can handle.

The text is `NAME: event. Remedy.` Where no event or no remedy is given, the table of fanin_wire provides the meaning
of the status, and its general remedy.
"""

from __future__ import annotations

from typing import ClassVar

from fanin_wire.abi import Status
from fanin_wire.status import status_entry


class FaninError(Exception):
    """Base of all. `status`: code of enum fanin_status. `detail`: the event. `remedy`: the advice."""

    default_status: ClassVar[int | None] = None
    by_status: ClassVar[dict[int, type[FaninError]]] = {}

    def __init__(self, detail: str = "", status: int | None = None, remedy: str = "") -> None:
        code = status if status is not None else self.default_status
        entry = status_entry(Status["INVALID_REQUEST"] if code is None else code)
        self.status = entry.code
        self.detail = detail
        self.remedy = remedy or entry.remedy
        self.missing_ranks: tuple[int, ...] = ()  # ranks of the job that were waited for
        happened = detail or entry.meaning
        sentence = happened if happened.endswith((".", "?", "!")) else f"{happened}."
        super().__init__(f"{entry.name}: {sentence} {self.remedy}")

    def __init_subclass__(cls, status: str = "") -> None:
        if status:
            cls.default_status = int(Status[status])
            cls.by_status[cls.default_status] = cls

    @classmethod
    def of(cls, status: int, detail: str = "", remedy: str = "") -> FaninError:
        """The exception for a status code; FaninError itself for a code that this version does not know."""
        return cls.by_status.get(int(status), FaninError)(detail, int(status), remedy)


class Pending(FaninError, status="PENDING"):
    """Not complete yet."""


class SegmentBufferError(FaninError, status="BUFFER_ERROR"):
    """A length, chunk or seg does not fit."""


class LocalProtectionError(FaninError, status="LOCAL_PROTECTION_ERROR"):
    """The device may not reach the memory."""


class PeerLost(FaninError, ConnectionError, status="PEER_LOST"):
    """A member of the job is gone."""


class Timeout(FaninError, TimeoutError, status="TIMEOUT"):
    """A deadline passed; the missing are named."""


class OpMismatch(FaninError, status="OP_MISMATCH"):
    """Ranks called different collectives."""


class NotConfigured(FaninError, status="NOT_CONFIGURED"):
    """The device does not know the job, or the queue pair has not joined."""


class JidInUse(FaninError, status="JID_IN_USE"):
    """Another job has the id."""


class NoResources(FaninError, status="NO_RESOURCES"):
    """Too few slots, queues or memory."""


class TooFewLanes(FaninError, status="TOO_FEW_LANES"):
    """A switch has fewer lanes than the NICs."""


class Aborted(FaninError, status="ABORTED"):
    """A failure elsewhere has ended the job."""


class Flushed(FaninError, status="FLUSHED"):
    """The request was dropped with its queue pair or job."""


class NotSupported(FaninError, NotImplementedError, status="NOT_SUPPORTED"):
    """Asked for something that is not implemented; `reason`: the code under which a reduction was counted, or ""."""

    def __init__(self, detail: str = "", status: int | None = None, remedy: str = "", reason: str = "") -> None:
        super().__init__(detail, status, remedy)
        self.reason = reason


class InvalidRequest(FaninError, ValueError, status="INVALID_REQUEST"):
    """An argument is wrong."""


class VersionMismatch(FaninError, status="VERSION_MISMATCH"):
    """Driver and device are of different versions."""


class DeviceLost(FaninError, ConnectionError, status="DEVICE_LOST"):
    """The device has ended, or stands still."""


class QueueFull(FaninError, status="QUEUE_FULL"):
    """The send queue has no room."""


class NoDevice(FaninError, ConnectionError, status="NO_DEVICE"):
    """Nobody answers at the socket."""


class PermissionDenied(FaninError, PermissionError, status="PERMISSION_DENIED"):
    """Not allowed for this user."""


class MembersMismatch(FaninError, status="MEMBERS_MISMATCH"):
    """Ranks describe the job differently."""


class CqOverrun(FaninError, status="CQ_OVERRUN"):
    """A completion found no room in its queue; the job was ended."""


class DriverMissing(NotSupported):
    """The driver core (a shared library) is not built or can not be loaded."""
