"""Member: this process as one rank of one job, from joining to leaving, with its connection to the NIC.

It tells `fanin run` that a rank's failure has its cause elsewhere. When one rank fails the others fail too, and often
end first, so exit codes do not show which one failed by itself. The others write a line into a file of the run.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from fanin._binding import Communicator as BoundCommunicator
from fanin._binding import Request, configure
from fanin.driver import check, ffi, in_slices, library, refused
from fanin.errors import FaninError, InvalidRequest, Timeout
from fanin.job import Job
from fanin.timeouts import require_seconds
from fanin.verbs import PD, WC, Context, Lease
from fanin.verbs.cq import FEWER_QUEUES
from fanin.verbs.membership import refusal
from fanin.verbs.wc import address_text
from fanin_wire.abi import CQ_DEPTH, Status
from fanin_wire.datatypes import DATATYPES
from fanin_wire.operations import OPERATIONS
from fanin_wire.status import NAMING_A_DEVICE

log = logging.getLogger("fanin")
LEAVE_TIMEOUT_MS = 10_000
COMPARE = (
    "Compare what the errors of the other ranks name: "
    "all must call the same collectives in the same order with the same operation, type and length."
)
CAUSES_VARIABLE = "FANIN_CONSEQUENCES"  # the file of exit causes
OF_OTHERS = frozenset(int(Status[name]) for name in ("PEER_LOST", "ABORTED", "TIMEOUT"))


# A communicator


class DeviceConnection:
    """A context and its protection domain, shared by a communicator and all that are made from it. The last user to
    release it closes it."""

    def __init__(self, socket: str | os.PathLike[str]) -> None:
        self.context = Context(socket)
        self.pd = PD(self.context)
        self._users = 0
        self._lock = threading.Lock()

    def take(self) -> None:
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """The last user detaches; the device then forgets this process."""
        with self._lock:
            self._users -= 1
            unused = self._users == 0
        if unused:
            self.context.abandon()


class How(IntEnum):
    """What a communicator is made of; enum how of `binding/communicator.c`."""

    JOIN = 0
    DUP = 1
    SPLIT = 2
    SHRINK = 3
    GROW = 4


class Begin(NamedTuple):
    """How to begin a communicator.

    number: the rank of JOIN, the slots of DUP, the milliseconds of SHRINK, the newcomers of GROW. data: struct
    fanin_job of JOIN, struct fanin_choice of each rank of SPLIT, struct fanin_newcomer of each newcomer of GROW. begun:
    called with the joined job before others are waited for.
    """

    how: How
    parent: BoundCommunicator | None = None
    number: int = 0
    data: Any = ffi.NULL
    begun: Callable[[Job], None] | None = None


class Progress(NamedTuple):
    """How far a collective is, as its device reports it (step S6). A segment is done when its result has reached its
    place in this process."""

    name: str
    done: int  # segments
    segments: int  # of all its messages; 0: not known yet
    waiting_for: tuple[int, ...]  # ranks that its first incomplete segment waits for, as far as the device knows

    def __str__(self) -> str:
        waiting = f", waiting for ranks {list(self.waiting_for)}" if self.waiting_for else ""
        return f"{self.name}: {self.done} of {self.segments} segments{waiting}"


_members: weakref.WeakSet[Member] = weakref.WeakSet()


class Member(BoundCommunicator):
    """One rank of one job. `lease`: what the devices have granted."""

    job: Job
    lease: Lease
    connection: DeviceConnection

    def join(self, connection: DeviceConnection, begin: Begin, timeout: float | None) -> None:
        """Join the job of `begin`; returns when all members have joined.

        Raises within `timeout` seconds (None: the library's limit): Timeout naming the missing ranks, MembersMismatch,
        NoResources, ...
        """
        require_seconds(timeout)
        self.connection = connection
        self._ending: tuple[int, str] | None = None  # number and name of the message with which the job ended
        self._is_closed = True
        connection.take()
        _members.add(self)
        try:
            self._join(begin, timeout)
            self._is_closed = False
        except BaseException as error:
            if isinstance(error, FaninError):
                note_cause(error.status)
            self._end_job(False, 0)
            connection.release()
            raise
        note_success()

    def _join(self, begin: Begin, timeout: float | None) -> None:
        context, reply = self.connection.context, ffi.new("struct fanin_join_reply *")
        how, parent, number, data, begun = begin
        status = self._begin(_address(context.handle), context, how, parent, number, _address(data))
        check(status, f"can not join the job{refused(status)}", NO_RESOURCES=FEWER_QUEUES)
        if begun is not None:
            begun(self._described())
        progress = library().fanin_progress  # another rank may wait for what this one has not posted yet
        status = in_slices(lambda ms: self._finish_join(_address(reply), ms), timeout, progress)
        if status:
            raise self._refusal(status, reply, has_limit=timeout is not None)
        self.job = self._described()
        self.lease = Lease(reply.slots, reply.window, reply.chunk or self.job.chunk)

    def _described(self) -> Job:
        return Job.of(ffi.cast("struct fanin_job *", self._job()))

    def _refusal(self, status: int, reply: Any, has_limit: bool) -> FaninError:
        """The exception of a join. has_limit: by the program's time limit; else the library's, which gives a reason."""
        if (status == Status.TIMEOUT and not has_limit and not reply.missing) or refused(status):
            return FaninError.of(status, f"can not join the job{refused(status)}")
        job = self._described()
        ranks = job.missing_ranks(self.rank, reply.missing, reply.missing_kind)
        lost = reply.slots if status in NAMING_A_DEVICE else 0
        names = job.missing_names(self.rank, status, reply.missing, reply.missing_kind, lost)
        error = refusal(status, job, reply, names or self._too_long(job))
        error.lost_device = address_text(lost)
        error.missing_ranks = tuple(rank for rank in ranks if rank != self.rank)
        return error

    def _too_long(self, job: Job) -> str:
        """The error of a job whose segments are too long for this node's NIC, after a semicolon; else ""."""
        limits = self.connection.context.query_device()
        if job.chunk <= limits.max_chunk or job.chosen_route == "local":
            return ""
        longest = f"with an MTU of {limits.mtu} this node's NIC takes segments of at most {limits.max_chunk} bytes"
        return f"; {longest}: give chunk=0"

    def require_open(self) -> None:
        """InvalidRequest if the job has been left, or the connection belongs to a parent process."""
        if self._is_closed:
            raise InvalidRequest("the communicator is closed", remedy="Make a new one.")
        self.connection.context.require_open()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all ranks have what this rank has brought to collectives.

        A rank that wants no result (the root of a broadcast, the others of a reduce) goes on when its data have been
        taken. What fails afterwards is an error of the next collective, or of this call.

        Args:
            timeout: seconds. None: no limit.

        Raises:
            Timeout: not all ranks have taken part in that time.
            FaninError: a collective that had ended here has failed, for instance PeerLost. It is raised once.
        """
        require_seconds(timeout)
        self.require_open()
        if in_slices(self._flush, timeout) != Status.SUCCESS:
            raise Timeout(f"some ranks still lack data of rank {self.rank} after {timeout:g} s")

    def end(self, leave: bool) -> None:
        """Leave the job (or not: the others then get PeerLost) and give everything back. Harmless twice."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self.connection.context.closed:
            status = self._end_job(leave, LEAVE_TIMEOUT_MS)
            if status not in (Status.SUCCESS, Status.DEVICE_LOST):
                error = FaninError.of(status, "the device has not confirmed the leave")
                log.warning("rank %d left job %d without confirmation: %s", self.rank, self.job.jid, error)
        self.connection.release()

    def counts(self) -> dict[str, int]:
        """Requests posted, under way, and waiting for room."""
        return dict(zip(("posted", "outstanding", "backlog"), self._state(), strict=False))

    # Called by the extension

    def _failure(self, about: object, name: str, status: int, number: int, completion: tuple[int, ...]) -> FaninError:
        """Of a request, or of a refused start. number: of its message. completion: fields of its WC, or zeros."""
        request = str(about) if isinstance(about, Request) else f"{about or name} on rank {self.rank}"
        found = WC(*completion)
        if status == Status.FLUSHED or found.status != status or not found.jid:
            why = "" if isinstance(about, Request) else refused(status)
            return FaninError.of(status, f"{request}{self._trouble(status) or why}")
        ranks = self.job.missing_ranks(self.rank, found.missing, found.missing_kind)
        mismatch = status == Status.OP_MISMATCH
        detail = self._what_failed(request, name, number)
        detail += self.job.missing_names(self.rank, status, found.missing, found.missing_kind, found.lost_device)
        error = FaninError.of(status, detail, COMPARE if mismatch else "")
        error.missing_ranks = tuple(rank for rank in ranks if rank != self.rank)
        error.lost_device = address_text(found.lost_device)
        if set(ranks) != {self.rank}:
            note_cause(status)
        return error

    def _trouble(self, status: int) -> str:
        """The event, if no completion names it."""
        if status == Status.FLUSHED:
            return ": its communicator was closed"
        if status == Status.CQ_OVERRUN:
            return f": a completion queue of {CQ_DEPTH} entries was full when another completion came"
        if status != Status.DEVICE_LOST:
            return ""
        context = self.connection.context
        how = "stands still" if not context.closed and context.device_stands_still else "has ended"
        return f": the device at {context.socket_path} {how}"

    def _what_failed(self, request: str, name: str, number: int) -> str:
        """The request; if the job ended before it, also where."""
        ended, ended_name = self._ended_at(number, name)
        if ended == number:
            return f"{request}, message {number} of job {self.job.jid}"
        message = f"message {ended}" + (f" ({ended_name})" if ended_name else "")
        return f"{request} was not done: job {self.job.jid} ended at {message}"

    def _ended_at(self, number: int, name: str) -> tuple[int, str]:
        """Number and name of the message that ended the job; these if none did."""
        if self._ending is not None and self._ending[1]:
            return self._ending
        if self._ending is None:
            if self._is_closed:
                return number, name
            *_, ended, status = self._state()
            if not status:
                return number, name
            self._ending = ended, ""
        if self._ending[0] == number:
            self._ending = number, name
        return self._ending

    def _late(self, request: object, seconds: float) -> Timeout:
        return Timeout(f"{request} is still under way after {seconds:g} s")

    def _seconds(self, timeout: Any) -> float:
        require_seconds(timeout)
        return float(timeout)

    def _progress(self, name: str, status: int, done: int, segments: int, missing: int, kind: int) -> Progress:
        check(status, "the device has not answered a query")
        waiting_for = self.job.missing_ranks(self.rank, missing, kind)
        return Progress(name, done, segments, tuple(rank for rank in waiting_for if rank != self.rank))


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def _forget_all() -> None:
    for member in list(_members):
        member._forget()


# The extension


def _configure() -> None:
    """Give the extension the types of arrays and the names of operations."""
    dtypes: list[np.dtype | None] = [None] * (1 + max(entry.code for entry in DATATYPES))
    for entry in DATATYPES:
        if entry.numpy.isbuiltin and not entry.alias:  # numpy has no object of its own for pairs
            dtypes[entry.code] = entry.numpy
    names = {name: int(entry.code) for entry in OPERATIONS for name in (entry.name.lower(), entry.name)}
    configure(np.ndarray, np.empty, tuple(dtypes), names)


# The causes of exits


def note_cause(status: int) -> None:
    """Append "RANK STATUS" to the run's file, if there is one and another rank can cause the status."""
    if status in OF_OTHERS:
        _append(Status(status).name)


def note_success() -> None:
    """Append "RANK -": the rank has joined a job and goes on. A rank's last line counts."""
    _append("-")


def _append(word: str) -> None:
    path, rank = os.environ.get(CAUSES_VARIABLE), os.environ.get("FANIN_RANK")
    if path is None or rank is None:
        return
    with contextlib.suppress(OSError):  # the run is over
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, f"{rank} {word}\n".encode())
        finally:
            os.close(descriptor)


_configure()
os.register_at_fork(after_in_child=_forget_all)
