"""Member: this process as one rank of one job, from joining to leaving."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from fanin._binding import Communicator as BoundCommunicator
from fanin._binding import Request, configure
from fanin.driver import SLICE_MS, check, ffi, library
from fanin.errors import FaninError, InvalidRequest, Timeout
from fanin.job import Job
from fanin.membership import exit_cause
from fanin.membership.device_connection import DeviceConnection
from fanin.membership.progress import Progress
from fanin.membership.rank_names import missing_ranks, named
from fanin.timeouts import require_seconds
from fanin.verbs import WC, Lease, Membership
from fanin.verbs.collective_qp import MEANWHILE_MS, MESSAGES
from fanin.verbs.cq import FEWER_QUEUES
from fanin.verbs.refusal import refusal
from fanin_wire.abi import CQ_DEPTH, Status
from fanin_wire.datatypes import DATATYPES
from fanin_wire.operations import OPERATIONS

log = logging.getLogger("fanin")

LEAVE_TIMEOUT_MS = 10_000
COMPARE = (
    "Compare what the errors of the other ranks name: "
    "all must call the same collectives in the same order with the same operation, type and length."
)

_members: weakref.WeakSet[Member] = weakref.WeakSet()


def _configure() -> None:
    """Tell the extension the types of arrays and the names of operations."""
    dtypes: list[np.dtype | None] = [None] * (1 + max(entry.code for entry in DATATYPES))
    for entry in DATATYPES:
        if entry.numpy.isbuiltin and entry.name != "bf16":  # numpy has no such type, and no object of its own for pairs
            dtypes[entry.code] = entry.numpy
    names = {name: int(entry.code) for entry in OPERATIONS for name in (entry.name.lower(), entry.name)}
    configure(np.ndarray, np.empty, tuple(dtypes), names)


_configure()


def progress_all() -> None:
    """Let every communicator of this process take completions, and post requests that wait for room."""
    library().fanin_progress()


class Member(BoundCommunicator):
    """One rank of one job. `lost`: the ranks that PEER_LOST has named. `lease`: what the devices have granted."""

    job: Job
    rank: int
    size: int
    lease: Lease
    connection: DeviceConnection

    def join(
        self,
        connection: DeviceConnection,
        job: Job,
        rank: int,
        timeout: float,
        meanwhile: Callable[[], None] = progress_all,
    ) -> None:
        """Join a job. Returns when all members have joined.

        Raises within `timeout` seconds: Timeout naming the missing ranks, MembersMismatch, NoResources, ...
        meanwhile: called now and then while it waits for them.
        """
        require_seconds(timeout, unlimited=False)
        self.job, self.rank, self.size = job, rank, job.size
        self.connection = connection
        self.lost: tuple[int, ...] = ()
        self._ending: tuple[int, str] | None = None  # number and name of the message with which the job ended
        self._is_closed = True
        membership = job.membership(rank)
        connection.take()
        try:
            self.lease = self._join(membership, timeout, meanwhile)
        except BaseException as error:
            if isinstance(error, FaninError):
                exit_cause.note(error.status)
            connection.release()
            raise
        self._is_closed = False
        _members.add(self)
        exit_cause.take_back()

    def _join(self, membership: Membership, timeout: float, meanwhile: Callable[[], None]) -> Lease:
        handle = self.connection.context.handle
        made, reply = ffi.new("struct fanin_communicator **"), ffi.new("struct fanin_join_reply *")
        status = library().fanin_begin_join(handle, membership.to_c(0), self.rank, self.size, made)
        check(status, f"can not join job {membership.jid}", NO_RESOURCES=FEWER_QUEUES)
        try:
            status = _await_join(made[0], reply, timeout, meanwhile)
            if status:
                raise refusal(status, membership, reply)
        except BaseException:
            library().fanin_abandon(made[0])
            raise
        self._adopt(_address(made[0]), _address(handle), self.connection.context)
        return Lease(reply.slots, reply.window, reply.chunk or membership.chunk)

    def require_open(self) -> None:
        """InvalidRequest if the job has been left, or the connection belongs to a parent process."""
        if self._is_closed:
            raise InvalidRequest("the communicator is closed", remedy="Make a new one.")
        self.connection.context.require_open()

    def end(self, leave: bool) -> None:
        """Leave the job (or not: the others then get PeerLost) and give everything back. Harmless when called again."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self.connection.context.closed:
            status = self._end_job(leave, LEAVE_TIMEOUT_MS)
            if status not in (Status["SUCCESS"], Status["DEVICE_LOST"]):
                error = FaninError.of(status, "the device has not confirmed it")
                log.warning("rank %d left job %d without confirmation: %s", self.rank, self.job.jid, error)
        self.connection.release()

    def counts(self) -> dict[str, int]:
        """How many requests were posted, are under way, and wait for room."""
        return dict(zip(("posted", "outstanding", "backlog"), self._state(), strict=False))

    # Called by the extension

    def _failure(self, about: object, name: str, status: int, completion: tuple[int, ...]) -> FaninError:
        """The exception of a request, or of a start that was refused. completion: fields of its WC, all 0 if it has
        none."""
        request = str(about) if isinstance(about, Request) else f"{about or name} on rank {self.rank}"
        found = WC(*completion)
        if status == Status["FLUSHED"] or found.status != status or not found.jid:
            return FaninError.of(status, f"{request}{self._trouble(status)}")
        ranks = missing_ranks(self.job, self.rank, found.missing_members(), found.missing_kind)
        detail = self._what_failed(request, name, found) + named(self.job, self.rank, ranks, found)
        error = FaninError.of(status, detail, COMPARE if status == Status["OP_MISMATCH"] else "")
        error.missing_ranks = tuple(rank for rank in ranks if rank != self.rank)
        if status == Status["PEER_LOST"]:
            self.lost = tuple(sorted({*self.lost, *ranks}))
        if set(ranks) != {self.rank}:
            exit_cause.note(status)
        return error

    def _trouble(self, status: int) -> str:
        """The event, where no completion tells it."""
        if status == Status["FLUSHED"]:
            return ": its communicator was closed"
        if status == Status["CQ_OVERRUN"]:
            return f": a completion queue of {CQ_DEPTH} entries was full when another completion came"
        if status != Status["DEVICE_LOST"]:
            return ""
        context = self.connection.context
        how = "stands still" if not context.closed and context.device_stands_still else "has ended"
        return f": the device at {context.socket_path} {how}"

    def _what_failed(self, request: str, name: str, completion: WC) -> str:
        """The request; if the job had ended before it, that and where."""
        number = completion.mid % MESSAGES
        ended, ended_name = self._ended_at(number, name)
        if ended == number:
            return f"{request}, message {number} of job {completion.jid}"
        message = f"message {ended}" + (f" ({ended_name})" if ended_name else "")
        return f"{request} was not done: job {completion.jid} ended at {message}"

    def _ended_at(self, number: int, name: str) -> tuple[int, str]:
        """Number and name of the message that has ended the job; those of this one if none has."""
        if self._ending is not None and self._ending[1]:
            return self._ending
        if self._ending is None:
            if self._is_closed:
                return number, name
            *_, ended, status = self._state()
            if not status:
                return number, name
            self._ending = ended % MESSAGES, ""
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
        bits = [bit for bit in range(64) if missing >> bit & 1]
        waiting_for = missing_ranks(self.job, self.rank, bits, kind)
        return Progress(name, done, segments, tuple(rank for rank in waiting_for if rank != self.rank))


def _await_join(made: Any, reply: Any, timeout: float, meanwhile: Callable[[], None]) -> int:
    """Wait in slices, so that Ctrl-C gets through; the status."""
    deadline = time.monotonic() + timeout
    while True:
        left = int(max(0.0, deadline - time.monotonic()) * 1000)
        status = library().fanin_finish_join(made, reply, min(left, MEANWHILE_MS, SLICE_MS))
        if status != Status["PENDING"] or left == 0:
            return int(status)
        meanwhile()


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def _forget_all() -> None:
    for member in list(_members):
        member._forget()


os.register_at_fork(after_in_child=_forget_all)
