"""Communicator: collectives of one job for one rank, in the short form."""

from __future__ import annotations

import atexit
import logging
import math
import os
import sys
import weakref
from types import TracebackType
from typing import Any, Self

import numpy as np

from fanin.buffers import Buffers, prepare
from fanin.errors import DeviceLost, FaninError, Flushed, InvalidRequest, NotSupported
from fanin.job import Job, environment
from fanin.request import Request
from fanin.stream import Stream
from fanin.verbs import CQ, MR, PD, WC, Address, CollectiveQP, CollectiveWR, Context
from fanin_wire.abi import Status
from fanin_wire.operations import Operation, UnsupportedOperation, operation_by_name

log = logging.getLogger("fanin")

JOIN_TIMEOUT = 60.0
LEAVE_TIMEOUT = 10.0
DEADLINE_GRACE = 2.0  # seconds that the device has to report a deadline that has passed
MAX_DEADLINE_MS = (1 << 32) - 1

_open: weakref.WeakSet[Communicator] = weakref.WeakSet()
_unreleased: list[object] = []  # memory of which a device has not confirmed that it is done with it


class Communicator:
    """The ranks of a job, as one of them.

    Without arguments: from the environment that `fanin run` sets. Else `job`, this process's `rank` in it, and the
    `socket` of its node's NIC. Returns when all ranks have joined, or raises within `timeout` seconds what is wrong
    (NoDevice, Timeout naming who is missing, MembersMismatch, ...).

    It may be used by several threads. close() leaves the job; `with` does so at the end of its block, and aborts when
    the block ends with an exception, so that the other ranks do not wait for this one.
    """

    def __init__(
        self,
        job: Job | None = None,
        rank: int | None = None,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = JOIN_TIMEOUT,
    ) -> None:
        self.job = Job.from_environment() if job is None else job
        self.rank = _rank_of_environment() if rank is None else rank
        self.size = self.job.size
        membership = self.job.membership(self.rank)
        self._context = Context(environment("FANIN_SOCKET") if socket is None else socket)
        try:
            self._pd, cq = PD(self._context), CQ(self._context)
            self._qp = CollectiveQP(self._pd, cq)
            self._lease = self._qp.join(membership, timeout)
        except BaseException:
            self._context.close()
            raise
        self._stream = Stream(self._qp, cq, self._failure)
        _open.add(self)

    def alloc(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        """New zeroed array in registered memory, which the device reads and writes without a copy."""
        self._context.require_open()
        dtype = np.dtype(dtype)
        count = math.prod(shape) if isinstance(shape, tuple) else shape
        if count == 0:
            return np.empty(shape, dtype)
        region = MR(self._pd, count * dtype.itemsize)
        return np.frombuffer(region.buf, dtype, count).reshape(shape)

    def allreduce(self, array: Any, out: Any = None, op: str = "sum", timeout: float | None = None) -> Any:
        """Combine `array` of all ranks element by element; every rank gets the result.

        array: numpy array or buffer of f32, f64, i32 or i64; one that is not C-contiguous is copied first.
        out: where the result goes (may be `array`); by default a new array, which is returned.
        op: "sum", "min", "max", "mean". timeout: seconds for all ranks to take part; by default no limit.
        Raises the exception of the status: Timeout (naming the missing ranks), OpMismatch, PeerLost, DeviceLost, ...
        """
        request = self.iallreduce(array, out, op, timeout)
        return request.wait(None if timeout is None else timeout + DEADLINE_GRACE)

    def iallreduce(self, array: Any, out: Any = None, op: str = "sum", timeout: float | None = None) -> Request:
        """Start an allreduce and return at once; see allreduce. Any number may be under way; they run in order."""
        self._context.require_open()
        operation = _operation(op)
        buffers, result = prepare(array, out)
        count = buffers.source.size
        text = f"allreduce ({operation.name}, {count} elements of {buffers.datatype.name}) on rank {self.rank}"
        request = Request(self._stream, self._work(operation, buffers, timeout), buffers, result, text)
        self._stream.submit(request)
        return request

    def _work(self, operation: Operation, buffers: Buffers, timeout: float | None) -> CollectiveWR:
        source, destination = buffers.source.ctypes.data, buffers.destination.ctypes.data
        regions = self._context.regions
        return CollectiveWR(
            op=operation.code,
            dtype=buffers.datatype.code,
            length=buffers.nbytes,
            address_list=[Address(source, destination)],
            deadline_ms=0 if timeout is None else min(max(1, math.ceil(timeout * 1000)), MAX_DEADLINE_MS),
            source_lkey=regions.lkey_of(source, buffers.nbytes),
            destination_lkey=regions.lkey_of(destination, buffers.nbytes),
        )

    def _failure(self, request: Request, completion: WC) -> FaninError | None:
        """The exception of a completion, with the ranks that it names as missing."""
        if completion.status == 0:
            return None
        ranks = self.job.missing_ranks(self.rank, completion.missing_members(), completion.missing_kind)
        detail = f"{request}, message {completion.mid} of job {completion.jid}"
        if ranks:
            named = "noticed at" if completion.status == Status["OP_MISMATCH"] else "missing"
            detail += f"; {named}: {self.job.names(ranks)}"
        error = FaninError.of(completion.status, detail)
        error.missing_ranks = ranks
        return error

    def status(self) -> dict[str, Any]:
        """This rank's place and counts, and the status of its device."""
        return {
            "rank": self.rank,
            "size": self.size,
            "jid": self.job.jid,
            "route": self.job.chosen_route,
            **self._lease._asdict(),
            **self._stream.counts(),
            "device": self._context.status(),
        }

    def close(self) -> None:
        """Leave the job and detach. What is still under way fails as Flushed. Harmless when called again."""
        self._end(leave=True)

    def abort(self) -> None:
        """Detach without leaving: the other ranks get PeerLost instead of waiting for this one."""
        self._end(leave=False)

    def _end(self, leave: bool) -> None:
        _open.discard(self)
        if self._context.closed:
            return
        self._stream.progress()
        if leave:
            self._leave()
        self._detach()

    def _leave(self) -> None:
        try:
            self._qp.leave(LEAVE_TIMEOUT)
        except DeviceLost:
            log.debug("rank %d: the device ended before the job was left", self.rank)
        except FaninError as error:
            log.warning("rank %d left job %d without confirmation: %s", self.rank, self.job.jid, error)

    def _detach(self) -> None:
        try:
            self._qp.close()
        except FaninError as error:
            # The device may still write into the arrays: they must never be used for anything else.
            _unreleased.extend(self._stream.memory_under_way())
            log.warning("rank %d: the device does not answer: %s", self.rank, error)
        self._stream.close(Flushed("its communicator was closed"))
        self._context.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end(leave=error is None)

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size} in job {self.job.jid} ({self.job.chosen_route})"


def _operation(name: str) -> Operation:
    try:
        return operation_by_name(name)
    except UnsupportedOperation as error:
        raise NotSupported(str(error)) from None
    except AttributeError:
        raise InvalidRequest(f"op must be a name such as 'sum', not {name!r}") from None


def _rank_of_environment() -> int:
    text = environment("FANIN_RANK")
    if not text.isdecimal():
        raise InvalidRequest(f"FANIN_RANK is {text!r}, not a number")
    return int(text)


@atexit.register
def _end_of_program() -> None:
    """A program that ends well has left its jobs; one that ends with an exception must not keep others waiting."""
    failed = getattr(sys, "last_value", None) is not None
    for communicator in list(_open):
        communicator._end(leave=not failed)
