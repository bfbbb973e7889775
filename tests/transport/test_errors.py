"""Errors: on which side, with which status; and the other requests are flushed."""

import numpy as np
import pytest

from fanin_nic.transport.transport import KeyUnknown
from fanin_wire.abi import SEND_WQE
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, QueuePairState, RequestOpcode, SendFlag

from .rig import EVERYTHING, SIGNALED, STRANGER_DOMAIN, Pair
from .test_operations import SOURCE, TARGET, remote
from .test_reliability import FETCH_ADD, READ, SEND, TIMEOUT, WRITE

ERR, RTS, SQE = QueuePairState.ERR, QueuePairState.RTS, QueuePairState.SQE
FLUSHED = "WR_FLUSH_ERR"


def post(pair: Pair, opcode: RequestOpcode, length: int = 8, **members) -> None:
    """A good request, a bad one, and another good one; a receive request at both ends."""
    for end in (pair.one, pair.two):
        end.post_receive((0, 64))
    good = {"remote_address": pair.two.start + TARGET, "rkey": pair.two.key}
    pair.one.post(WRITE, (SOURCE, 10), **good)
    pair.one.post(opcode, (SOURCE, length), **(good | members))
    pair.one.post(WRITE, (SOURCE, 10), **good)
    pair.run()
    pair.pass_time(TIMEOUT)


def assert_ended(pair: Pair, status: str) -> None:
    """The connection has ended at both ends: with a status at the requester, flushed at the responder."""
    assert pair.one.statuses() == ["SUCCESS", status, FLUSHED, FLUSHED]
    assert pair.two.statuses() == [FLUSHED]
    assert pair.one.state() == pair.two.state() == ERR


def test_region_of_another_protection_domain():
    pair = Pair()
    post(pair, WRITE, rkey=pair.two.register(EVERYTHING, domain=STRANGER_DOMAIN))
    assert_ended(pair, "REM_ACCESS_ERR")


def test_deregistered_region():
    pair = Pair()
    key = pair.two.register(EVERYTHING)
    pair.two.transport.deregister(key)
    post(pair, WRITE, rkey=key)
    assert_ended(pair, "REM_ACCESS_ERR")


@pytest.mark.parametrize(
    ("opcode", "length", "members", "status"),
    [
        (WRITE, 8, {"lkey": 99}, "LOC_PROT_ERR"),
        (READ, 8, {"lkey": "read only"}, "LOC_PROT_ERR"),
        (FETCH_ADD, 16, {}, "LOC_LEN_ERR"),
        (FETCH_ADD, 4, {}, "LOC_LEN_ERR"),
        (7, 8, {}, "LOC_QP_OP_ERR"),
        (255, 8, {}, "LOC_QP_OP_ERR"),
        (READ, 8, {"flags": SIGNALED | SendFlag.INLINE}, "LOC_QP_OP_ERR"),
        (WRITE, 8, {"flags": SIGNALED | SendFlag.INLINE, "inline_length": 129}, "LOC_LEN_ERR"),
        (WRITE, 8, {"sge_count": 9}, "LOC_QP_OP_ERR"),
    ],
)
def test_local_errors_end_the_queue_in_order(opcode: int, length: int, members: dict, status: str):
    pair = Pair()
    if members.get("lkey") == "read only":
        members = {"lkey": pair.one.register(Access.REMOTE_READ)}
    post(pair, opcode, length, **members)
    assert pair.one.statuses() == ["SUCCESS", status, FLUSHED, FLUSHED]
    assert pair.one.state() == ERR
    assert pair.two.completions == []
    assert pair.two.state() == RTS  # it learns nothing


def test_message_longer_than_two_gigabytes():
    pair = Pair()
    wqe = np.zeros(1, SEND_WQE)
    wqe["opcode"], wqe["flags"], wqe["sge_count"] = WRITE, SIGNALED, 2
    wqe["sge"][0, 0] = (pair.one.start, 1 << 31, pair.one.key)
    wqe["sge"][0, 1] = (pair.one.start, 1, pair.one.key)
    assert pair.one.transport.post_send(0, wqe, pair.one.now)
    pair.one.settle()
    assert pair.one.statuses() == ["LOC_LEN_ERR"]


def test_local_memory_that_goes_away_before_a_repetition():
    pair = Pair()
    key = pair.one.register(EVERYTHING)
    pair.bend = lambda packet: []
    pair.one.post(WRITE, (SOURCE, 10), lkey=key, **remote(pair))
    pair.run()
    pair.one.transport.deregister(key)
    pair.pass_time(TIMEOUT)
    assert pair.one.statuses() == ["LOC_PROT_ERR"]


def test_local_memory_that_goes_away_before_the_response():
    pair = Pair()
    key = pair.one.register(EVERYTHING)
    pair.one.post(READ, (SOURCE, 10), lkey=key, **remote(pair))
    pair.one.transport.deregister(key)
    pair.run()
    assert pair.one.statuses() == ["LOC_PROT_ERR"]


def test_a_key_that_is_gone_takes_no_other_region_along():
    pair = Pair()
    gone = pair.one.register(EVERYTHING)
    pair.one.transport.deregister(gone)
    other = pair.one.register(EVERYTHING)
    assert gone >> 16 == other >> 16
    for key in (gone, 0, 1 << 31):
        with pytest.raises(KeyUnknown, match=f"{key:#x}"):
            pair.one.transport.deregister(key)
    pair.one.transport.deregister(other)


@pytest.mark.parametrize("tag", [0, 1 << 16])
def test_a_tag_that_is_no_tag_is_refused(tag: int):
    with pytest.raises(ValueError, match="tag"):
        Pair().one.transport.register(0, 8, EVERYTHING, domain=1, tag=tag)


def test_requests_posted_to_a_queue_pair_in_error_are_flushed():
    pair = Pair()
    pair.one.transport.modify(0, ERR, pair.one.now)
    pair.one.post(WRITE, (SOURCE, 10), flags=0, **remote(pair))
    pair.one.post_receive((0, 10))
    assert pair.one.statuses() == [FLUSHED, FLUSHED]
    assert pair.log == []


def test_modify_to_error_flushes_all_in_order():
    pair = Pair()
    pair.bend = lambda packet: []
    for number in range(32):
        pair.one.post(WRITE, (SOURCE, 10), wr_id=number, flags=SIGNALED * (number % 2), **remote(pair))
    for number in range(32):
        pair.one.post_receive((0, 10), wr_id=100 + number)
    pair.one.transport.modify(0, ERR, pair.one.now)
    pair.one.settle()
    assert pair.one.statuses() == [FLUSHED] * 64
    assert [completion.wr_id for completion in pair.one.completions] == [*range(32), *range(100, 132)]
    assert pair.one.count("errors") == 1


def test_queue_that_is_full_takes_nothing():
    pair = Pair()
    wqe = np.zeros(1, SEND_WQE)
    pair.one.transport.queue_pair(0)["state"] = QueuePairState.RTR
    assert [pair.one.transport.post_send(0, wqe, 0) for _ in range(33)] == [True] * 32 + [False]


def test_error_while_a_read_before_it_is_answered():
    """The responder answers the earlier request, then refuses."""
    pair = Pair()
    pair.two.memory[TARGET : TARGET + 8192] = 5
    pair.one.post(READ, (SOURCE, 8192), **remote(pair))
    pair.one.post(WRITE, (SOURCE, 10), remote_address=0, rkey=1)
    pair.run()
    assert pair.one.statuses() == ["SUCCESS", "REM_ACCESS_ERR"]
    assert (pair.one.memory[SOURCE : SOURCE + 8192] == 5).all()


def test_send_with_invalidate_takes_the_rights_of_the_other_side():
    pair = Pair()
    key = pair.two.register(EVERYTHING | Access.REMOTE_INVALIDATE)
    for _ in range(2):
        pair.two.post_receive((0, 64))
    pair.one.post(RequestOpcode.SEND_WITH_INV, (SOURCE, 10), immediate=key)
    pair.run()
    received = pair.two.completions[0]
    assert (received.status, received.flags, received.immediate) == (0, 8, key)
    pair.one.post(WRITE, (SOURCE, 10), remote_address=pair.two.start, rkey=key)
    pair.run()
    assert pair.one.statuses() == ["SUCCESS", "REM_ACCESS_ERR"]


def test_invalidate_of_a_region_that_does_not_allow_it():
    pair = Pair()
    pair.two.post_receive((0, 64))
    pair.one.post(RequestOpcode.SEND_WITH_INV, (SOURCE, 10), immediate=pair.two.key)
    pair.run()
    assert pair.one.statuses() == pair.two.statuses() == ["REM_INV_REQ_ERR"]


@pytest.mark.parametrize("kind", [Service.UC, Service.UD])
def test_send_queue_of_an_unreliable_service_ends_alone(kind: Service):
    pair = Pair(kind)
    pair.one.post_receive((0, 100))
    pair.one.post(READ, (SOURCE, 10))
    pair.one.post(SEND, (SOURCE, 10))
    assert pair.one.statuses() == ["LOC_QP_OP_ERR", FLUSHED]
    assert pair.one.state() == SQE
    pair.one.transport.modify(0, RTS, pair.one.now)
    where = {"destination": pair.two.address, "remote_qpn": pair.two.qpn(0), "remote_qkey": 0x1234}
    pair.two.post_receive((0, 100))
    pair.one.post(SEND, (SOURCE, 10), **where)
    pair.run()
    assert pair.two.statuses() == ["SUCCESS"]
