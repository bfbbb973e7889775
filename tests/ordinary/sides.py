"""The two ends of ordinary traffic: each a context of its own NIC, with memory and queue pairs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fanin.verbs import CQ, GID, MR, PD, QP, SGE, SRQ, AHAttr, Context, GlobalRoute, QPAttr, QPInitAttr, RecvWR, SendWR
from fanin.verbs.enums import (
    IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_REMOTE_ATOMIC,
    IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE,
    IBV_QPT_RC,
)
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.verbs import CompletionStatus
from tests.waiting import BOUND_S

MEMORY = 4 << 20
ALL_RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
QKEY = 0x11111111
SIZES = (0, 1, 3, 4, 5, 255, 256, 257, 1023, 1024, 1025, 4096, 4097, 64500, 65535, 65536, 1 << 20)
_seeds = itertools.count(1)


class Side:
    """One end: `qp` is its queue pair, `data` its registered memory as bytes."""

    def __init__(self, socket: str, kind: int = IBV_QPT_RC, *, access: int = ALL_RIGHTS, signal_all: int = 1) -> None:
        self.context = Context(socket)
        self.pd, self.cq = PD(self.context), CQ(self.context)
        self.mr = MR(self.pd, MEMORY, access)
        self.data = np.frombuffer(self.mr.buf, np.uint8)
        self.qp = self.make_qp(kind, signal_all)

    def make_qp(self, kind: int = IBV_QPT_RC, signal_all: int = 1, srq: SRQ | None = None) -> QP:
        return QP(self.pd, QPInitAttr(kind, self.cq, self.cq, sq_sig_all=signal_all, srq=srq))

    @property
    def gid(self) -> GID:
        return self.context.query_gid()

    def piece(self, length: int, offset: int = 0, mr: MR | None = None) -> SGE:
        mr = mr or self.mr
        return SGE(mr.address + offset, length, mr.lkey)

    def fill(self) -> None:
        self.data[:] = np.random.default_rng(next(_seeds)).integers(0, 256, MEMORY, np.uint8)

    def send(
        self, opcode: int, *pieces: SGE, wr_id: int = 1, remote: tuple[Side, int] | None = None, **more: Any
    ) -> None:
        """Post a request to send. remote: side and offset in its memory for a WRITE or READ."""
        request = SendWR(wr_id, opcode, sg=pieces, **more)
        if remote is not None:
            side, offset = remote
            request.set_wr_rdma(side.mr.rkey, side.mr.address + offset)
        self.qp.post_send(request)

    def receive(self, *pieces: SGE, wr_id: int = 2) -> None:
        self.qp.post_recv(RecvWR(wr_id, sg=pieces))

    def completions(self, count: int, timeout: float = BOUND_S) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            assert self.cq.wait(timeout), f"{len(found)} of {count} completions: {found}"
            found += self.cq.poll(count - len(found))[1]
        return found

    def completion(self) -> Any:
        """The next completion, which must be a success."""
        (found,) = self.completions(1)
        assert found.status == CompletionStatus.SUCCESS, found
        return found

    def statuses(self, count: int) -> list[str]:
        return [CompletionStatus(found.status).name for found in self.completions(count)]

    def close(self) -> None:
        self.context.close()


def attributes(side: Side, qpn: int, **members: Any) -> QPAttr:
    """Attributes of a queue pair connected to the queue pair `qpn` of `side`."""
    route = AHAttr(GlobalRoute(side.gid))
    return QPAttr(
        **{"dest_qp_num": qpn, "qp_access_flags": ALL_RIGHTS, "ah_attr": route, "qkey": QKEY, "rnr_retry": 7} | members
    )


def connect(one: Side, other: Side, **members: Any) -> None:
    one.qp.to_rts(attributes(other, other.qp.qp_num, **members))
    other.qp.to_rts(attributes(one, one.qp.qp_num, **members))


def sockets(running: Running) -> Sequence[str]:
    return [str(running.state.socket(nic.name)) for nic in running.fabric.nics]
