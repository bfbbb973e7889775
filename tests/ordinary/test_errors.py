"""Errors end as verbs demand: by a completion, in their own queue pair only."""

import ctypes
import mmap
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from fanin.errors import InvalidRequest, QueueFull
from fanin.verbs import AH, MR, PD, QP, SGE, AHAttr, GlobalRoute, QPAttr, QPCap, QPInitAttr, RecvWR, SendWR
from fanin.verbs.enums import (
    IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE,
    IBV_QP_CUR_STATE,
    IBV_QP_STATE,
    IBV_QPS_ERR,
    IBV_QPS_INIT,
    IBV_QPS_RESET,
    IBV_QPS_RTR,
    IBV_QPS_RTS,
    IBV_QPS_SQE,
    IBV_QPT_RC,
    IBV_QPT_UC,
    IBV_QPT_UD,
    IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE,
    IBV_WR_SEND,
)
from fanin_wire.verbs import CompletionStatus
from tests.e2e.fabrics import eventually
from tests.ordinary.conftest import Connected
from tests.ordinary.sides import ALL_RIGHTS, MEMORY, QKEY, Side, attributes, connect

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)

Wrong = Callable[[Side, Side], SendWR]


def to(one: Side, opcode: int, rkey: int, address: int, length: int = 8) -> SendWR:
    request = SendWR(1, opcode, sg=[one.piece(length)])
    if opcode == IBV_WR_ATOMIC_FETCH_AND_ADD:
        request.set_wr_atomic(rkey, address, 1)
    else:
        request.set_wr_rdma(rkey, address)
    return request


def region(side: Side, access: int) -> MR:
    return MR(side.pd, 4096, access)


def in_another_domain(side: Side) -> MR:
    return MR(PD(side.context), 4096, ALL_RIGHTS)


def closed(side: Side) -> MR:
    gone = MR(side.pd, 4096, ALL_RIGHTS)
    gone.close()
    return gone


def at(one: Side, opcode: int, mr: MR, offset: int = 0, length: int = 8) -> SendWR:
    return to(one, opcode, mr.rkey, mr.address + offset, length)


WRONG: dict[str, tuple[str, Wrong]] = {
    "key": ("REM_ACCESS_ERR", lambda one, other: to(one, IBV_WR_RDMA_WRITE, other.mr.rkey ^ 1, other.mr.address)),
    "no key": ("REM_ACCESS_ERR", lambda one, other: to(one, IBV_WR_RDMA_READ, 0, other.mr.address)),
    "behind the end": ("REM_ACCESS_ERR", lambda one, other: at(one, IBV_WR_RDMA_WRITE, other.mr, MEMORY - 7)),
    "before the start": ("REM_ACCESS_ERR", lambda one, other: at(one, IBV_WR_RDMA_READ, other.mr, -1)),
    "no right to write": (
        "REM_ACCESS_ERR",
        lambda one, other: at(one, IBV_WR_RDMA_WRITE, region(other, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)),
    ),
    "no right to read": (
        "REM_ACCESS_ERR",
        lambda one, other: at(one, IBV_WR_RDMA_READ, region(other, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)),
    ),
    "another domain": ("REM_ACCESS_ERR", lambda one, other: at(one, IBV_WR_RDMA_WRITE, in_another_domain(other))),
    "a closed region": ("REM_ACCESS_ERR", lambda one, other: at(one, IBV_WR_RDMA_WRITE, closed(other))),
    "memory for collectives": ("REM_ACCESS_ERR", lambda one, other: at(one, IBV_WR_RDMA_WRITE, MR(other.pd, 4096))),
    "an atomic that is not aligned": (
        "REM_INV_REQ_ERR",
        lambda one, other: at(one, IBV_WR_ATOMIC_FETCH_AND_ADD, other.mr, 4),
    ),
    "a local key": ("LOC_PROT_ERR", lambda one, other: SendWR(1, IBV_WR_SEND, sg=[SGE(one.mr.address, 8, 12345)])),
    "local memory behind the end": (
        "LOC_PROT_ERR",
        lambda one, other: SendWR(1, IBV_WR_SEND, sg=[one.piece(9, MEMORY - 8)]),
    ),
    "more than 2 GiB": (
        "LOC_LEN_ERR",
        lambda one, other: SendWR(1, IBV_WR_SEND, sg=[SGE(one.mr.address, 1 << 31, one.mr.lkey)] * 2),
    ),
    "an operation that is none": ("LOC_QP_OP_ERR", lambda one, other: SendWR(1, 200, sg=[one.piece(8)])),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request(connected: Connected, name: str) -> None:
    """It ends its own connection. The memory of the other side is unchanged, and other connections go on."""
    status, build = WRONG[name]
    one, other = connected(max_rd_atomic=4, max_dest_rd_atomic=4)
    beside = one.make_qp(), other.make_qp()
    beside[0].to_rts(attributes(other, beside[1].qp_num))
    beside[1].to_rts(attributes(one, beside[0].qp_num))
    one.fill()
    other.fill()
    before = other.data.copy()
    one.qp.post_send(build(one, other))
    one.send(IBV_WR_SEND, one.piece(8), wr_id=77)
    assert one.statuses(2) == [status, "WR_FLUSH_ERR"]
    assert one.qp.qp_state == IBV_QPS_ERR
    assert np.array_equal(other.data, before)
    beside[1].post_recv(RecvWR(5, sg=[other.piece(100)]))
    beside[0].post_send(SendWR(6, IBV_WR_SEND, sg=[one.piece(100)]))
    assert one.completion().wr_id == 6
    while other.completions(1)[0].wr_id != 5:
        pass
    assert np.array_equal(other.data[:100], one.data[:100])


def test_a_message_longer_than_its_receive_request(connected: Connected) -> None:
    one, other = connected()
    other.receive(other.piece(99))
    one.send(IBV_WR_SEND, one.piece(100))
    assert one.statuses(1) == ["REM_INV_REQ_ERR"]
    assert other.statuses(1) == ["LOC_LEN_ERR"]


def test_no_receive_request(connected: Connected) -> None:
    one, _ = connected(rnr_retry=2, min_rnr_timer=1)
    one.send(IBV_WR_SEND, one.piece(100))
    assert one.statuses(1) == ["RNR_RETRY_EXC_ERR"]


def test_a_receive_request_that_comes_late(connected: Connected) -> None:
    """RNR NAKs hold the sender back until there is one."""
    one, other = connected(rnr_retry=7, min_rnr_timer=10)
    one.fill()
    one.send(IBV_WR_SEND, one.piece(5000))
    assert not one.cq.wait(0.1)
    other.receive(other.piece(5000))
    one.completion()
    other.completion()
    assert np.array_equal(other.data[:5000], one.data[:5000])
    assert one.context.status()["counters"]["ordinary_rnr_naks_received"] > 0


def test_requests_that_are_left_are_flushed(connected: Connected) -> None:
    one, _ = connected()
    for number in range(5):
        one.receive(one.piece(10), wr_id=number)
    one.qp.modify(QPAttr(qp_state=IBV_QPS_ERR), IBV_QP_STATE)
    one.send(IBV_WR_SEND, one.piece(10), wr_id=9)
    found = one.completions(6)
    assert sorted(done.wr_id for done in found) == [0, 1, 2, 3, 4, 9]
    assert {done.status for done in found} == {5}


def test_a_queue_pair_is_used_again_after_reset(connected: Connected) -> None:
    one, other = connected()
    one.send(IBV_WR_RDMA_WRITE, one.piece(8), remote=(other, -8))
    assert one.statuses(1) == ["REM_ACCESS_ERR"]
    for side in (one, other):
        side.qp.modify(QPAttr(qp_state=IBV_QPS_RESET), IBV_QP_STATE)
    connect(one, other)
    other.receive(other.piece(10))
    one.send(IBV_WR_SEND, one.piece(10))
    assert one.completion().wr_id == 1
    assert other.completion().byte_len == 10


def test_reset_drops_what_was_posted(connected: Connected) -> None:
    """Requests in the device, and those in the rings because its queues are full."""
    one, other = connected()
    for number in range(256 + 40):
        eventually(partial(is_received, one, 1000 + number), bool)
    for side in (one, other):
        side.qp.modify(QPAttr(qp_state=IBV_QPS_RESET), IBV_QP_STATE)
    connect(one, other)
    one.receive(one.piece(8), wr_id=3)
    other.send(IBV_WR_SEND, other.piece(8))
    assert one.completion().wr_id == 3


def is_received(side: Side, number: int) -> bool:
    """Whether its ring of receive requests had room for one more."""
    with suppress(QueueFull):
        side.receive(side.piece(8), wr_id=number)
        return True
    return False


def without_memory(side: Side, length: int, present: int) -> MR:
    """Registered memory of the process, of which all but the first bytes is unmapped afterwards."""
    address = libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    region = MR(side.pd, length, IBV_ACCESS_LOCAL_WRITE, address=address)
    libc.munmap(ctypes.c_void_p(address + present), length - present)
    return region


def three(one: Side, other: Side, kind: int, lost: MR) -> None:
    """A good request, one of missing memory, and a good one, posted at once."""
    length = lost.length if kind != IBV_QPT_UD else 1000
    pieces = {7: one.piece(100), 8: one.piece(length, mr=lost), 9: one.piece(100)}
    requests = [SendWR(number, IBV_WR_SEND, sg=[piece], send_flags=0) for number, piece in pieces.items()]
    for request in requests:
        if kind == IBV_QPT_UD:
            request.set_wr_ud(AH(one.pd, AHAttr(GlobalRoute(other.gid))), other.qp.qp_num, QKEY)
        one.qp.post_send(request)


@pytest.mark.parametrize("signal_all", [0, 1])
@pytest.mark.parametrize(
    ("kind", "present"), [(IBV_QPT_RC, 0), (IBV_QPT_RC, 40960), (IBV_QPT_UC, 0), (IBV_QPT_UC, 40960), (IBV_QPT_UD, 0)]
)
def test_memory_that_is_unmapped(connected: Connected, kind: int, signal_all: int, present: int) -> None:
    """Its request fails. Earlier ones are executed, later ones flushed."""
    one, other = connected(kind)
    for side in (one, other):
        side.qp.close()
        side.qp = side.make_qp(kind, signal_all)
    connect(one, other)
    other.receive(other.piece(200))
    three(one, other, kind, without_memory(one, 65536, present))
    found = [(done.wr_id, CompletionStatus(done.status).name) for done in one.completions(2 + signal_all)]
    assert found == [(7, "SUCCESS"), (8, "LOC_PROT_ERR"), (9, "WR_FLUSH_ERR")][1 - signal_all :]
    assert other.completion().byte_len == 100 + (40 if kind == IBV_QPT_UD else 0)
    assert one.qp.qp_state == (IBV_QPS_ERR if kind == IBV_QPT_RC else IBV_QPS_SQE)
    assert not one.cq.wait(0.05)
    if kind != IBV_QPT_RC:
        one.qp.modify(QPAttr(qp_state=IBV_QPS_RTS, cur_qp_state=IBV_QPS_SQE), IBV_QP_STATE | IBV_QP_CUR_STATE)
    assert one.context.status()["counters"]["dma_errors"] > 0


def test_posting_before_its_time(connected: Connected) -> None:
    one, other = connected()
    fresh = one.make_qp()
    with pytest.raises(InvalidRequest, match="state 0"):
        fresh.post_recv(RecvWR(1, sg=[one.piece(8)]))
    fresh.to_init(attributes(other, 1))
    fresh.post_recv(RecvWR(1, sg=[one.piece(8)]))
    fresh.to_rtr(attributes(other, 1))
    assert fresh.qp_state == IBV_QPS_RTR
    with pytest.raises(InvalidRequest, match="state 2"):
        fresh.post_send(SendWR(1, IBV_WR_SEND, sg=[one.piece(8)]))


def test_changes_of_state_that_verbs_do_not_allow(connected: Connected) -> None:
    one, other = connected()
    fresh = one.make_qp()
    for state in (IBV_QPS_RTR, IBV_QPS_RTS):
        with pytest.raises(InvalidRequest, match="not allowed"):
            fresh.modify(QPAttr(qp_state=state), IBV_QP_STATE)
    with pytest.raises(InvalidRequest, match="not allowed"):  # a path MTU above the port's
        fresh.to_rtr(attributes(other, 1, path_mtu=9))
    assert fresh.qp_state == IBV_QPS_INIT
    known = one.qp.query()
    assert (known.qp_state, known.dest_qp_num, known.timeout) == (IBV_QPS_RTS, other.qp.qp_num, 14)
    assert known.ah_attr is not None
    assert known.ah_attr.ipv4 == other.gid.ipv4


def test_rights_that_contradict_themselves(connected: Connected) -> None:
    one, _ = connected()
    for access in (IBV_ACCESS_REMOTE_WRITE, 1 << 20):
        with pytest.raises(InvalidRequest):
            MR(one.pd, 64, access)


def test_a_closed_queue_pair_and_its_number(connected: Connected) -> None:
    one, _ = connected()
    number = one.qp.index
    one.qp.close()
    fresh = QP(one.pd, QPInitAttr(IBV_QPT_UD, one.cq), QPAttr(qkey=3))
    assert fresh.index == number
    assert fresh.qp_state == IBV_QPS_RTS
    with pytest.raises(InvalidRequest):
        one.qp.post_recv(RecvWR(1))
    with pytest.raises(InvalidRequest, match="max_send_sge"):
        QP(one.pd, QPInitAttr(IBV_QPT_RC, one.cq, cap=QPCap(max_send_sge=9)))
