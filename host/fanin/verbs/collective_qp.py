"""CollectiveQP: the send queue of one rank in one job.

Record 0059 (docs/decisions) says why objects of pyverbs are named by their handles.
"""

import atexit
import contextlib
import functools
import os
from collections.abc import Callable
from typing import Any

from fanin.driver import because, check, ffi, in_slices, library
from fanin.errors import FaninError, InvalidRequest, NotConfigured, NotSupported, Timeout
from fanin.verbs.collective_wr import CollectiveWR
from fanin.verbs.cq import CQ
from fanin.verbs.membership import Lease, Membership, refusal
from fanin.verbs.mr import PD
from fanin.verbs.resource import Resource, columns
from fanin.verbs.send_queue import OwnQueue, PyverbsQueue
from fanin.verbs.wc import WC
from fanin_wire.abi import MID_BITS, ContributorClass, DType, Op, Status, WqeOpcode
from fanin_wire.geometry import position_count, segment_length
from fanin_wire.operations import supports

WHAT_IS_SUPPORTED = (
    "Post what capabilities() names, for all members of the job; for some of them make a job by split()."
)
QUERY = int(WqeOpcode.QUERY)
ALL = int(ContributorClass.ALL)
GIVE_UP_SECONDS = 1.0  # for the device to confirm; it sees the end of the connection as well
MESSAGES = 1 << MID_BITS  # counts of message numbers
NODE_BITS = 64  # in a bitmap; work requests do not name further nodes


class CollectiveQP(Resource):
    """Posts the collectives of one job, in order. It keeps the position in the job's stream of segments, and fills it
    in.

    `position` and `mid` are equal on all ranks. pd and cq: of fanin.verbs, or of pyverbs on a device of the preloaded
    verbs library. Completions are then in pyverbs' completion queue, in the form of verbs (docs/verbs.md), and the
    queue pair must be closed before pd and cq.
    """

    def __init__(self, pd: PD | Any, cq: CQ | Any) -> None:
        is_own = isinstance(pd, PD) and isinstance(cq, CQ)
        self._queue = OwnQueue(pd, cq) if is_own else PyverbsQueue(pd, cq)
        self.cq = cq
        self.qp_num = self._queue.number
        self.membership: Membership | None = None
        self.lease: Lease | None = None
        self._granted: Lease | None = None  # as lease, also when the job has been left
        self._cursor = ffi.new("struct fanin_cursor *")
        self._joined: Any = None  # struct fanin_join and struct fanin_join_reply, while `lease` is set
        self._request: Any = None
        super().__init__(*((pd, cq) if is_own else ()))  # both are closed after it
        if not is_own:
            _on_pyverbs.add(self)

    @property
    def position(self) -> int:
        """The next free position of the job's stream."""
        return int(self._cursor.position)

    @property
    def mid(self) -> int:
        """The count of the next message number."""
        return int(self._cursor.mid)

    def join(self, membership: Membership, timeout: float = 30.0, meanwhile: Callable[[], None] | None = None) -> Lease:
        """Join a job; returns when all its members have joined. `meanwhile` is called now and then while it waits.

        Raises Timeout (naming the missing members if they are known) or the refusal: JidInUse, MembersMismatch,
        NoResources, PeerLost, VersionMismatch, InvalidRequest.
        """
        self.start_join(membership)
        return self.finish_join(timeout, meanwhile)

    def start_join(self, membership: Membership) -> None:
        """Begin to join, for a program that joins with several queue pairs from one thread."""
        self.require_open()
        if self._request is not None or self.lease is not None:
            raise InvalidRequest(f"queue pair {self.qp_num} has joined already")
        started = ffi.new("struct fanin_membership_request **")
        status = self._queue.calls.fanin_join_qp(self._queue.handle, membership.to_c(self.qp_num), started)
        check(status, f"can not join job {membership.jid}")
        self.membership, self._request = membership, started[0]

    def finish_join(self, timeout: float = 30.0, meanwhile: Callable[[], None] | None = None) -> Lease:
        """Wait for the end of start_join; `meanwhile` as in join."""
        if self.membership is None or self._request is None:
            raise InvalidRequest(f"queue pair {self.qp_num} is not joining a job")
        status, reply = self._await(timeout, meanwhile)
        if status == Status.PENDING and not self._send_leave():  # other members that wait learn who is missing
            self._await(GIVE_UP_SECONDS)
        if status != Status.SUCCESS:
            raise refusal(status, self.membership, reply)
        self.lease = Lease(reply.slots, reply.window, reply.chunk or self.membership.chunk)
        self._joined = self.membership.to_c(self.qp_num), reply
        self._granted = self.lease
        self._cursor[0] = {"slots": reply.slots}
        return self.lease

    def leave(self, timeout: float = 10.0) -> None:
        """Leave the job. The devices free its resources when all members have left.

        Requests under way end the job for the others (ABORTED). Their completions, FLUSHED, are in the completion queue
        when this returns. Closing a queue pair does the same.
        """
        self._require_joined()
        check(self._send_leave(), "can not leave the job")
        self.lease = None
        status, _ = self._await(timeout)
        if status == Status.PENDING:
            raise Timeout(f"the device has not confirmed the leave within {timeout:g} s")
        check(status, "can not leave the job")

    def _send_leave(self) -> int:
        started = ffi.new("struct fanin_membership_request **")
        status = int(self._queue.calls.fanin_leave_qp(self._queue.handle, self.qp_num, started))
        if not status:
            self._request = started[0]
        return status

    def _await(self, timeout: float, meanwhile: Callable[[], None] | None = None) -> tuple[int, Any]:
        """Status and struct fanin_join_reply of a join or leave."""
        reply = ffi.new("struct fanin_join_reply *")
        try:
            status = in_slices(
                lambda ms: self._queue.calls.fanin_await_membership(self._request, reply, ms), timeout, meanwhile
            )
        finally:
            self._forget_request()
        return status, reply

    def post_send(self, wr: CollectiveWR) -> int:
        """Post a work request; its message number. QueueFull: take completions first. NotConfigured: join first.

        NotSupported, InvalidRequest, SegmentBufferError: the device would refuse the request. Nothing was posted:
        correct it, and post it again.
        """
        wqe = self.wqe_of(wr)
        status = library().fanin_check_request(*self._joined, self._cursor, wqe)
        if status:
            check(status, f"can not post to job {wqe.jid}{because()}", NOT_SUPPORTED=WHAT_IS_SUPPORTED)
        status = self._queue.calls.fanin_post_next(self._queue.handle, self.qp_num, self._cursor, wqe)
        check(status, f"can not post to job {wqe.jid}")
        return int(wqe.mid)

    def wqe_of(self, wr: CollectiveWR) -> Any:
        """The struct fanin_wqe that post_send would post now."""
        lease, membership = self._require_joined()
        if wr.contributors == ALL:
            _require_supported(wr.op, wr.dtype)
        wqe = wr.to_c(
            {
                "jid": membership.jid,
                "mid": self.mid | wr.agreement << MID_BITS,
                "segments": self.positions_of(wr),
                "node": (1 << min(membership.node_count, NODE_BITS)) - 1,
                "rank": membership.rank_bitmap,
                "seg": self.position % lease.slots if lease.slots else 0,
                "chunk_length": lease.chunk,
                "route": membership.route,
            }
        )
        self._queue.localize(wqe)
        return wqe

    def positions_of(self, wr: CollectiveWR) -> int:
        """Positions of the job's stream that a work request takes, or took before the job was left."""
        if wr.segments is not None:
            return wr.segments
        return position_count(wr.length, wr.block_length, self.segment_of(wr), wr.contributors)

    def segment_of(self, wr: CollectiveWR) -> int:
        """Bytes of the message in one segment of a work request."""
        if self._granted is None or self.membership is None:
            raise NotConfigured(f"queue pair {self.qp_num} has not joined a job")
        chunk = wr.chunk_length or self._granted.chunk
        return segment_length(chunk, self.membership.flags, wr.contributors, wr.op, wr.dtype)

    def post_query(self, mid: int, wr_id: int = 0) -> None:
        """Ask how far message `mid` is. The answer is a completion with opcode QUERY, at once and out of order:

        status PENDING, with `positions` done and the missing members; SUCCESS: no such message is under way.
        """
        _, membership = self._require_joined()
        wqe = ffi.new("struct fanin_wqe *", {"opcode": QUERY, "jid": membership.jid, "mid": mid, "wr_id": wr_id})
        status = self._queue.calls.fanin_post(self._queue.handle, self.qp_num, wqe)
        check(status, f"can not post to job {membership.jid}")

    def last_completion(self) -> WC:
        """On objects of pyverbs: the last polled completion, with what verbs can not express (missing members)."""
        if not isinstance(self._queue, PyverbsQueue):
            raise NotSupported("a queue pair that is not on pyverbs has no pyverbs completion", remedy="Poll its CQ.")
        self.require_open()
        return WC.of(self._queue.last_completion())

    def _require_joined(self) -> tuple[Lease, Membership]:
        self.require_open()
        if self.lease is None or self.membership is None:
            raise NotConfigured(f"queue pair {self.qp_num} has not joined a job")
        return self.lease, self.membership

    def _forget_request(self) -> None:
        if self._request is not None:
            self._queue.calls.fanin_forget_membership(self._request)
            self._request = None

    def _release(self) -> None:
        self._forget_request()
        _on_pyverbs.discard(self)
        status = self._queue.destroy()
        if status == Status.PENDING:
            raise Timeout(
                f"queue pair {self.qp_num} was destroyed before the results of its requests had arrived",
                remedy="Do not use the memory of its requests again before the context is closed.",
            )
        if status != Status.DEVICE_LOST:
            check(status, f"can not destroy queue pair {self.qp_num}")

    def __str__(self) -> str:
        job = self.membership.jid if self.membership else None
        return columns(qp=self.qp_num, cq=self._queue.cq_name, jid=job, position=self.position, mid=self.mid)


@functools.cache  # of what is supported: a refusal is made anew
def _require_supported(op: int, dtype: int) -> None:
    if not supports(op, dtype):
        operation = Op(op).name if op in list(Op) else op
        kind = DType(dtype).name if dtype in list(DType) else dtype
        raise NotSupported(
            f"the devices do not compute operation {operation} of type {kind}",
            remedy="Post an operation and type that capabilities() names.",
        )


_on_pyverbs: set[CollectiveQP] = set()  # nobody else closes them


def _close_all() -> None:
    for qp in list(_on_pyverbs):
        with contextlib.suppress(FaninError):  # the device is gone
            qp.close()


def _close_inherited() -> None:
    for qp in list(_on_pyverbs):
        qp._request = None  # the parent's, as all that the device knows
    _close_all()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_close_inherited)
