"""Communicator: collectives of one job for one rank, in the short form."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import math
import operator
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from fanin._binding import Communicator as BoundCommunicator
from fanin._binding import Request
from fanin.api.capabilities import Capabilities, capabilities_of
from fanin.collectives.call import MAX_DEADLINE_MS, Call, description
from fanin.collectives.definitions import allgather
from fanin.collectives.offload import Offload
from fanin.collectives.variants import Collectives, Persistent
from fanin.collectives.vector import exchange_of_counts
from fanin.driver import check, ffi
from fanin.errors import FaninError, InvalidRequest
from fanin.job import START_REMEDY, Job, JobNode, environment
from fanin.job.description import newcomers_c, take_places
from fanin.membership.member import Begin, DeviceConnection, How, Member, Progress
from fanin.memory.buffers import address_of, dtype_of, shape_of
from fanin.timeouts import require_seconds
from fanin.verbs import MR
from fanin_wire.collectives import collective
from fanin_wire.datatypes import datatype_by_code

log = logging.getLogger("fanin")
JOIN_TIMEOUT = 60.0
EXIT_TIMEOUT = 60.0  # seconds for the flush when a program ends without closing its communicator
SHRINK_TIMEOUT = 30.0
MIN_SLOTS = 8  # of the stream of a persistent request

_open: weakref.WeakSet[Communicator] = weakref.WeakSet()


class Communicator(Collectives, Member):
    """A job's ranks, as one of them sees them.

    Without arguments: from the environment that `fanin run` sets. Else `job`, this process's `rank` in it, and the
    `socket` of its node's NIC, or a connection that it shares with other communicators. Returns when all ranks have
    joined, or raises within `timeout` seconds (NoDevice, Timeout naming the missing ranks, MembersMismatch, ...).
    fallback: the host computes the reductions that the devices do not; without it they are refused. Both are counted.

    `path` names route, devices, segment size and MTU; the logger "fanin" has it at level INFO. Several threads may use
    a communicator. close() leaves the job; `with` does so at the end of its block, or aborts if the block raises, so
    that the other ranks do not wait for this one.
    """

    def __init__(
        self,
        job: Job | None = None,
        rank: int | None = None,
        socket: str | os.PathLike[str] | DeviceConnection | None = None,
        timeout: float = JOIN_TIMEOUT,
        fallback: bool = False,
    ) -> None:
        job = Job.from_environment() if job is None else job
        rank = _rank_of_environment() if rank is None else rank
        if not isinstance(job, Job):
            raise InvalidRequest(
                f"job is {job!r}, not a Job",
                remedy="Job.from_file(path) reads a file; without `job`, FANIN_JOB names it.",
            )
        job.node_of(rank)
        _require_first(job, rank)
        require_seconds(timeout, unlimited=False)
        socket = environment("FANIN_SOCKET") if socket is None else socket
        connection = socket if isinstance(socket, DeviceConnection) else DeviceConnection(socket)
        self._form(connection, Begin(How.JOIN, number=rank, data=job.c), timeout, Offload(fallback))

    def _form(self, connection: DeviceConnection, begin: Begin, timeout: float | None, offload: Offload) -> None:
        self.join(connection, begin, timeout)
        self.offload = offload
        self._persistent: list[Persistent] = []  # with a stream of their own, to be closed
        self._concluding: list[Request] = []  # the host has a last step to do
        self.path = self.job.path(self.rank, self.lease.chunk, connection.context.query_device().mtu)
        log.debug("rank %d of %d in job %d: %s", self.rank, self.size, self.job.jid, self.path)
        _open.add(self)

    def alloc(self, shape: int | Sequence[int], dtype: Any = np.float32) -> np.ndarray:
        """New zeroed array in registered memory, which the device reads and writes without a copy."""
        self.require_open()
        dtype, shape = dtype_of(dtype), shape_of(shape)
        count = math.prod(shape)
        if count * dtype.itemsize == 0:
            return np.zeros(shape, dtype)
        region = MR(self.connection.pd, count * dtype.itemsize)
        return np.frombuffer(region.buf, dtype, count).reshape(shape)

    def run(self, call: Call) -> Any:
        """Run a collective whose arguments have been checked; its result."""
        self._await_host(call)
        return self._run(call.arguments(self.rank), call.limit)

    def start(self, call: Call) -> Request:
        """Start a collective whose arguments have been checked. Any number may be under way; they run in order."""
        self._await_host(call)
        request = self._start(call.arguments(self.rank))
        if call.conclude is not None:
            self._concluding = [*(other for other in self._concluding if not other.done), request]
        return request

    def _await_host(self, call: Call) -> None:
        """Behind a fence: finish the host's last steps, whose results the call may read."""
        while call.fence and self._concluding:
            with contextlib.suppress(Exception):  # raised where the program waits for that call
                self._concluding[0].wait()
            self._concluding = self._concluding[1:]

    def prepare(self, call: Call, ordered: bool) -> Persistent:
        """Make a collective persistent: in this communicator's stream (`ordered`), or in one of its own."""
        if call.with_counts is not None:
            call = call.with_counts(self.run(exchange_of_counts(self, call)))
        request = Persistent(self if ordered else self._own_stream(call), call, own=not ordered)
        if request.own:  # those in this stream end with it
            self._persistent = [*(other for other in self._persistent if not other.closed), request]
        return request

    def _own_stream(self, call: Call) -> Member:
        """With twice the slots that its segments can fill, at most those of the job."""
        positions = self._segments_of(call.arguments(self.rank))
        slots = min(self.job.slots, max(MIN_SLOTS, 1 << (2 * positions - 1).bit_length()))
        member = Member()
        member.join(self.connection, Begin(How.DUP, self, slots), JOIN_TIMEOUT)
        return member

    def split(self, color: int | None, key: int | None = None, timeout: float = JOIN_TIMEOUT) -> Communicator | None:
        """A communicator of the ranks that give the same `color`, a number from 0 on; None for those that give None.

        All ranks call this. `key` orders the ranks of the new one (default: this rank); equal keys keep their order. It
        is a job of its own, which shares only the connection to the device and outlives this communicator.
        """
        require_seconds(timeout, unlimited=False)
        exchange = allgather(self, _choice(color, self.rank if key is None else key), timeout=timeout)
        exchange.part_of = "split"
        rows = self.run(exchange)
        begin = Begin(How.SPLIT, self, data=ffi.from_buffer("struct fanin_choice[]", rows))
        if color is None:
            check(BoundCommunicator()._begin(0, None, *begin[:3], address_of(rows)))  # makes no job here
            return None
        return self._child(begin, timeout)

    def dup(self, timeout: float = JOIN_TIMEOUT) -> Communicator:
        """A communicator of the same ranks: another stream, whose collectives do not wait for this one's."""
        require_seconds(timeout, unlimited=False)
        return self._child(Begin(How.DUP, self), timeout)

    def shrink(self, timeout: float = SHRINK_TIMEOUT) -> Communicator:
        """A communicator of the ranks that are left after PeerLost, in the same order. All of them call this.

        A rank that has not called within `timeout` seconds counts as lost. If a switch is lost, the new job uses a ring
        of the NICs that are left. If another rank is lost meanwhile (PeerLost, Timeout), all call it again. It shares
        the connection to the device; close this communicator afterwards. DeviceLost: this node's device is gone, so
        this rank is lost.
        """
        require_seconds(timeout, unlimited=False)
        milliseconds = min(math.ceil(1000 * timeout), MAX_DEADLINE_MS)
        return self._child(Begin(How.SHRINK, self, milliseconds), None)

    def grow(
        self,
        newcomers: Sequence[JobNode],
        invite: Callable[[Job, Sequence[JobNode]], None] | None = None,
        timeout: float = JOIN_TIMEOUT,
    ) -> Communicator:
        """A communicator of these ranks and of newcomers. All ranks call this, with the same newcomers.

        A newcomer's node names its ranks in the new job; the others keep their order around them. A newcomer calls
        Communicator(job, rank, socket). Each rank calls `invite(job, newcomers)` before it waits for them: let one rank
        hand them job.to_text(). This communicator stays in use. Raises Timeout naming who has not come, MembersMismatch
        if ranks give other newcomers, InvalidRequest.
        """
        require_seconds(timeout, unlimited=False)
        newcomers = tuple(newcomers)
        rows = newcomers_c(newcomers)
        begun = None if invite is None else functools.partial(_invite, invite, newcomers)
        return self._child(Begin(How.GROW, self, len(rows), rows, begun), timeout)

    def replace(
        self,
        spares: Sequence[JobNode],
        invite: Callable[[Job, Sequence[JobNode]], None] | None = None,
        timeout: float = SHRINK_TIMEOUT,
    ) -> Communicator:
        """A communicator in which spares have the ranks that were lost; after PeerLost. All that are left call this.

        As shrink, and then grow. A spare is a node without ranks, and stands for one process; the first gets the lowest
        lost rank. Spares that are not needed are not invited; lost ranks without a spare are left out. `timeout`:
        seconds of each of the two steps. If it fails, all call it again, or shrink.
        """
        spares = tuple(spares)
        newcomers_c(spares)
        if any(spare.ranks for spare in spares):
            remedy = "Give JobNode(address, (), switches, ring); replace gives it the rank that was lost."
            raise InvalidRequest("a spare must have no ranks", remedy=remedy)
        left = self.shrink(timeout)
        try:
            present = left.allgather(np.array(self.rank), timeout=timeout).tolist()
            newcomers = take_places(spares, present, self.size)
            if not newcomers:
                return left
            grown = left.grow(newcomers, invite, timeout)
        except BaseException:
            left.abort()
            raise
        left.close()
        return grown

    def _child(self, begin: Begin, timeout: float | None) -> Communicator:
        self.require_open()
        child = Communicator.__new__(Communicator)
        child._form(self.connection, begin, timeout, Offload(self.offload.fallback))
        return child

    def progress(self) -> list[Progress]:
        """How far each collective under way is, in the order in which they were started; persistent ones come last."""
        self.require_open()
        own = [request.progress() for request in self._persistent if request.under_way]
        return [*(request.progress() for request in self._under_way() if _is_under_way(request)), *own]

    def capabilities(self) -> Capabilities:
        """What is offloaded on this path: collectives, operations by type, sizes, route."""
        return capabilities_of(self.job, self.lease)

    @property
    def not_offloaded(self) -> dict[str, int]:
        """How many reductions the devices did not compute, by reason (fanin.Reason)."""
        return self.offload.counts()

    def status(self) -> dict[str, Any]:
        """This rank's place and counts, and the status of its device."""
        self.require_open()
        return {
            "rank": self.rank,
            "size": self.size,
            "jid": self.job.jid,
            "route": self.job.chosen_route,
            "path": self.path,
            **self.lease._asdict(),
            **self.counts(),
            "not_offloaded": self.not_offloaded,
            "device": self.connection.context.status(),
        }

    def close(self) -> None:
        """Flush, leave the job and detach. What is still under way fails as Flushed. Harmless twice.

        Raises as flush, which has no time limit here; the job is left even then. Ctrl-C makes it an abort.
        """
        leave = True
        try:
            if not self._is_closed and not self.connection.context.closed:
                self.flush()
        except InvalidRequest:
            if not self._is_closed:  # else another thread closes it
                raise
        except KeyboardInterrupt:
            leave = False
            raise
        finally:
            self.end(leave)

    def abort(self) -> None:
        """Detach without leaving: the other ranks get PeerLost instead of waiting for this one."""
        self.end(leave=False)

    def end(self, leave: bool) -> None:
        """Close (`leave`) or abort."""
        _open.discard(self)
        for request in self._persistent:
            request.end(leave)
        self._persistent.clear()
        super().end(leave)

    def _describe(self, name: str, root: int, op: int, dtype: int, tag: int, block: int) -> str:
        """Text of a collective that the extension started; called by it."""
        row = collective(name)
        kind = datatype_by_code(dtype).name if row.reduces else datatype_by_code(tag).numpy.name if tag else ""
        sizes = () if not tag and not row.reduces else (block,) * (self.size if row.divided else 1)
        return description(row, name, sizes, kind, op, root)

    def is_member(self, job: Job, rank: int) -> bool:
        """Whether this is the open communicator of that rank of the job; never in a forked child."""
        same = (self.job.jid, self.job.key, self.rank) == (job.jid, job.key, rank)
        return same and not self.connection.context.closed

    def __reduce__(self) -> str:
        cause = "a communicator can not be copied or pickled: it is this process's place in a job"
        raise InvalidRequest(cause, remedy="dup() makes another of the same ranks; all of them call it.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
        else:
            self.abort()

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size} in job {self.job.jid} ({self.job.chosen_route})"


def _invite(invite: Callable[[Job, Sequence[JobNode]], None], newcomers: Sequence[JobNode], job: Job) -> None:
    invite(job, newcomers)


def _is_under_way(request: Request) -> bool:
    """Its exception is raised where the program waits for it."""
    try:
        return not request.test()
    except Exception:
        return False


def _choice(color: int | None, key: int) -> np.ndarray:
    """As a struct fanin_choice."""
    try:
        chosen = -1 if color is None else operator.index(color)
        if color is not None and chosen < 0:
            raise OverflowError
        return np.array([chosen, operator.index(key)], np.int64)
    except (TypeError, OverflowError):
        raise InvalidRequest(
            f"color {color!r} and key {key!r} must be whole numbers of 64 bits, and the color 0 or more",
            remedy="Give whole numbers; color=None for a rank that is to be in no group.",
        ) from None


def _rank_of_environment() -> int:
    text = environment("FANIN_RANK")
    if not text.isdecimal():
        raise InvalidRequest(f"FANIN_RANK is {text!r}, not a number", remedy=START_REMEDY)
    return int(text)


def _require_first(job: Job, rank: int) -> None:
    """InvalidRequest if this process has joined the job as this rank already."""
    for other in list(_open):
        if other.is_member(job, rank):
            raise InvalidRequest(
                f"rank {rank} has joined job {job.jid} already, in this process",
                remedy="Use that communicator; dup() makes another of the same ranks, split() one of some of them.",
            )


@atexit.register
def _end_of_program() -> None:
    """A program that ends well has left its jobs; one that ends with an exception must not keep others waiting."""
    failed = getattr(sys, "last_value", None) is not None
    for communicator in list(_open):
        try:
            if not failed:
                communicator.flush(EXIT_TIMEOUT)
        except FaninError as error:
            log.warning("%s", error)
        communicator.end(leave=not failed)
