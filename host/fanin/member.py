"""Member: this process as one rank of one job, from joining to leaving."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from fanin import consequence
from fanin.attachment import Attachment
from fanin.busy import advance_all
from fanin.call import Call, Deferred
from fanin.errors import DeviceLost, FaninError, Flushed, InvalidRequest
from fanin.job import Job
from fanin.naming import missing_ranks, named
from fanin.request import DeferredRequest, Request
from fanin.seconds import require_seconds
from fanin.stream import Stream
from fanin.verbs import CQ, WC, CollectiveQP, CollectiveWR, Lease, Membership
from fanin.verbs.collective_qp import MESSAGES
from fanin_wire.abi import Status

log = logging.getLogger("fanin")

LEAVE_TIMEOUT = 10.0
_unreleased: list[object] = []  # memory of which a device has not confirmed that it is done with it


# A job goes on after any other status of a completion: what it says concerns the request alone.
ENDS_THE_JOB = frozenset(int(Status[name]) for name in ("PEER_LOST", "TIMEOUT", "OP_MISMATCH", "ABORTED", "CQ_OVERRUN"))


COMPARE = (
    "Compare what the errors of the other ranks name: "
    "all must call the same collectives in the same order with the same operation, type and length."
)


class Ending(NamedTuple):
    """The first request of a rank that has failed with the job."""

    number: int
    name: str


class Member:
    """A queue pair, a completion queue and a stream of collectives. Returns when all members have joined.

    Raises within `timeout` seconds what is wrong: Timeout naming who is missing, MembersMismatch, NoResources, ...
    meanwhile: called now and then while it waits for them. `lost`: the ranks that PEER_LOST has named.
    """

    def __init__(
        self,
        attachment: Attachment,
        job: Job,
        rank: int,
        timeout: float,
        meanwhile: Callable[[], None] = advance_all,
    ) -> None:
        require_seconds(timeout, unlimited=False)
        self.job, self.rank = job, rank
        self.attachment = attachment
        self.lost: tuple[int, ...] = ()
        self._ending: Ending | None = None
        membership = job.membership(rank)
        attachment.take()
        try:
            self._cq = CQ(attachment.context)
            self._qp, self.lease = self._join(membership, timeout, meanwhile)
        except BaseException:
            attachment.release()
            raise
        consequence.take_back()
        self.stream = Stream(self._qp, self._cq, rank, self._failure, self._missing)
        self._ended = False

    def _join(
        self, membership: Membership, timeout: float, meanwhile: Callable[[], None]
    ) -> tuple[CollectiveQP, Lease]:
        try:
            qp = CollectiveQP(self.attachment.pd, self._cq)
            return qp, qp.join(membership, timeout, meanwhile)
        except BaseException as error:
            if isinstance(error, FaninError):
                consequence.note(error.status)
            self._close(self._cq)  # the connection may live on, for others
            raise

    def require_open(self) -> None:
        """InvalidRequest if the job has been left, or the connection belongs to a parent process."""
        if self._ended:
            raise InvalidRequest("the communicator is closed", remedy="Make a new one.")
        self.attachment.context.require_open()

    def start(self, call: Call | Deferred) -> Request:
        """Start a collective; it is posted now or when there is room."""
        self.require_open()
        if isinstance(call, Call):
            request = Request(self.stream, call, self.compose(call))
            self.stream.submit(request)
            return request
        first = Request(self.stream, call.first, self.compose(call.first))
        deferred = DeferredRequest(self.stream, call, first, self.compose)
        self.stream.submit(first, deferred)
        return deferred

    def compose(self, call: Call) -> list[CollectiveWR]:
        """The work requests of a call."""
        call.stage(self.attachment.staging)
        return call.works(self.rank, self.attachment.context.regions)

    def positions_of(self, call: Call) -> int:
        """Positions of a stream that a call takes each time."""
        return sum(map(self._qp.positions_of, self.compose(call)))

    def _missing(self, completion: WC) -> tuple[int, ...]:
        return missing_ranks(self.job, self.rank, completion.missing_members(), completion.missing_kind)

    def _failure(self, request: Request, completion: WC) -> FaninError:
        """The exception of a failed completion, with the ranks that it names as missing."""
        ranks = self._missing(completion)
        detail = self._what_failed(request, completion) + named(self.job, self.rank, ranks, completion)
        remedy = COMPARE if completion.status == Status["OP_MISMATCH"] else ""
        error = FaninError.of(completion.status, detail, remedy)
        error.missing_ranks = tuple(rank for rank in ranks if rank != self.rank)
        if completion.status == Status["PEER_LOST"]:
            self.lost = tuple(sorted({*self.lost, *ranks}))
        if set(ranks) != {self.rank}:
            consequence.note(error.status)
        return error

    def _what_failed(self, request: Request, completion: WC) -> str:
        """The request; if the job had ended before it, that and where."""
        number = completion.mid % MESSAGES
        if self._ending is None and completion.status in ENDS_THE_JOB:
            self._ending = Ending(number, request.name)
        if self._ending is None or self._ending.number == number:
            return f"{request}, message {number} of job {completion.jid}"
        ended, name = self._ending
        return f"{request} was not done: job {completion.jid} ended at message {ended} ({name})"

    def end(self, leave: bool) -> None:
        """Leave the job (or not: the others then get PeerLost) and give everything back. Harmless when called again."""
        if self._ended:
            return
        self._ended = True
        if not self.attachment.context.closed:
            self.stream.stop()
            if leave:
                self._leave()
            self._give_back()
        self.attachment.release()

    def _leave(self) -> None:
        try:
            self._qp.leave(LEAVE_TIMEOUT)
        except DeviceLost:
            log.debug("rank %d: the device ended before the job was left", self.rank)
        except FaninError as error:
            log.warning("rank %d left job %d without confirmation: %s", self.rank, self.job.jid, error)

    def _give_back(self) -> None:
        silent = not self._close(self._qp) or self.attachment.context.device_stands_still
        if silent:
            # The device may still write into the arrays: they must never be used for anything else.
            _unreleased.extend(self.stream.memory_under_way())
        self.stream.close(Flushed("its communicator was closed"))
        if not silent:
            self._close(self._cq)

    def _close(self, queue: CollectiveQP | CQ) -> bool:
        """Close a queue and what was made from it; False if the device does not confirm it."""
        try:
            queue.close()
        except FaninError as error:
            log.warning("rank %d: the device does not answer: %s", self.rank, error)
            return False
        return True
