"""Failing requests: the same status at both ends, in both roles, and one completion for each request.

Where rxe has another status, both are here, and with the reason in docs/interoperability.md.
"""

import pytest

from fanin_wire.verbs import RequestOpcode

from .cases import ATOMICS, ways
from .ends import MEMORY, RIGHTS, Completion, End
from .machine.guest import CallFailed
from .test_reliable import in_order, transfer

SOURCE, TARGET = 4096, 1 << 21
LENGTH = 5000
REMOTE = (RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_WRITE_WITH_IMM, RequestOpcode.RDMA_READ, *ATOMICS)
RIGHT_OF = {RequestOpcode.RDMA_READ: "REMOTE_READ", **dict.fromkeys(ATOMICS, "REMOTE_ATOMIC")}
SHORT = {"TIMEOUT": 15, "RETRY_CNT": 2}  # for an end whose peer is gone
remote = pytest.mark.parametrize("opcode", REMOTE, ids=lambda opcode: opcode.name)


def length_of(opcode: RequestOpcode) -> int:
    return 8 if opcode in ATOMICS else LENGTH


def statuses(completions: list[Completion]) -> list[tuple[int, str]]:
    return [(done.wr_id, done.status) for done in completions]


def fails(one: End, two: End, opcode: RequestOpcode, status: str, length: int | None = None, **members: int) -> None:
    """A request fails with a status; one after it and later posts are flushed."""
    length = length_of(opcode) if length is None else length
    one.post_receive(TARGET, LENGTH, wr_id=50)
    one.post(opcode, SOURCE, length, to=two, **({"at": TARGET} | members), wr_id=1)
    one.post(RequestOpcode.SEND, SOURCE, 10, to=two, wr_id=2)
    assert statuses(one.sent(2)) == [(1, status), (2, "WR_FLUSH_ERR")]
    assert statuses(one.received()) == [(50, "WR_FLUSH_ERR")]
    one.post(RequestOpcode.SEND, SOURCE, 10, to=two, wr_id=3)
    assert statuses(one.sent()) == [(3, "WR_FLUSH_ERR")]
    assert one.state() == "ERR"


@ways
@remote
def test_wrong_key(connect, way, opcode):
    one, two = in_order(way, connect())
    two.post_receive(TARGET, LENGTH)
    fails(one, two, opcode, "REM_ACCESS_ERR", rkey=two.key ^ 0x5A)
    assert two.bytes(TARGET, LENGTH) == bytes(LENGTH)


@ways
@remote
def test_behind_the_region(connect, way, opcode):
    one, two = in_order(way, connect())
    two.post_receive(TARGET, LENGTH)
    fails(one, two, opcode, "REM_ACCESS_ERR", at=MEMORY - length_of(opcode) + 8)


@ways
@remote
def test_without_the_right(connect, way, opcode):
    one, two = in_order(way, connect())
    two.post_receive(TARGET, LENGTH)
    lacking = RIGHT_OF.get(opcode, "REMOTE_WRITE")
    start, key = two.register([right for right in RIGHTS if right != lacking], 1 << 14)
    fails(one, two, opcode, "REM_ACCESS_ERR", at=start - two.start, rkey=key)


@ways
@pytest.mark.parametrize("opcode", ATOMICS, ids=lambda opcode: opcode.name)
def test_atomic_that_is_not_aligned(connect, way, opcode):
    one, two = in_order(way, connect())
    if one.name == "rxe":
        with pytest.raises(CallFailed, match="Errno: 22"):  # its library refuses the post
            one.post(opcode, SOURCE, 8, to=two, at=TARGET + 4)
    else:
        fails(one, two, opcode, "REM_INV_REQ_ERR", at=TARGET + 4)


@ways
def test_message_longer_than_its_receive_request(connect, way):
    one, two = in_order(way, connect())
    two.post_receive(TARGET, LENGTH - 1, wr_id=60)
    two.post_receive(TARGET, LENGTH, wr_id=61)
    there, here = ("LOC_QP_OP_ERR", "REM_OP_ERR") if two.name == "rxe" else ("LOC_LEN_ERR", "REM_INV_REQ_ERR")
    fails(one, two, RequestOpcode.SEND, here)
    assert statuses(two.received(2)) == [(60, there), (61, "WR_FLUSH_ERR")]
    assert two.state() == "ERR"


@ways
def test_wrong_local_key(connect, way):
    one, two = in_order(way, connect())
    fails(one, two, RequestOpcode.RDMA_WRITE, "LOC_QP_OP_ERR" if one.name == "rxe" else "LOC_PROT_ERR", key=0x7FFF1234)


@ways
@pytest.mark.parametrize("opcode", [RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_READ], ids=lambda opcode: opcode.name)
def test_longer_than_the_memory(connect, way, opcode):
    """2^31 - 1 bytes. rxe sends before it checks its own memory, so the other side refuses first."""
    one, two = in_order(way, connect())
    status = "REM_ACCESS_ERR" if one.name == "rxe" else "LOC_PROT_ERR"
    fails(one, two, opcode, status, length=(1 << 31) - 1)


@ways
def test_receiver_that_comes_late(connect, wire, way):
    """Without a limit of retries the sender waits for a request to receive."""
    one, two = in_order(way, connect())
    one.post(RequestOpcode.SEND, SOURCE, 10, to=two, wr_id=1)
    wire.rest(0.2)
    two.post_receive(TARGET, 10, wr_id=2)
    assert statuses(one.sent()) == [(1, "SUCCESS")]
    assert statuses(two.received()) == [(2, "SUCCESS")]
    assert any("ACKNOWLEDGE" in name for name in wire.counts)
    transfer(one, two, RequestOpcode.SEND, b"later", 3)


@ways
def test_receiver_that_does_not_come(connect, way):
    one, two = in_order(way, connect(RNR_RETRY=2))
    fails(one, two, RequestOpcode.SEND, "RNR_RETRY_EXC_ERR")


@ways
def test_nobody_answers(connect, wire, way):
    """The other side has gone: its queue pair is destroyed, or its NIC is off the wire."""
    fanin, rxe = connect(**SHORT)
    one, two = in_order(way, (fanin, rxe))
    transfer(one, two, RequestOpcode.SEND, b"before", 7)
    if two is rxe:
        rxe.destroy()
    else:
        wire.detach(fanin)
    fails(one, two, RequestOpcode.RDMA_WRITE, "RETRY_EXC_ERR")


@ways
def test_other_side_is_in_error(connect, way):
    one, two = in_order(way, connect(**SHORT))
    two.post_receive(TARGET, LENGTH, wr_id=60)
    two.fail()
    assert statuses(two.received()) == [(60, "WR_FLUSH_ERR")]
    fails(one, two, RequestOpcode.SEND, "RETRY_EXC_ERR")


@ways
def test_seven_retries(connect, wire, way):
    """Are seven; for rxe they are unlimited, as those after an RNR NAK."""
    fanin, rxe = connect(TIMEOUT=8, RETRY_CNT=7)
    if way.startswith("fanin"):
        rxe.destroy()
        fails(fanin, rxe, RequestOpcode.RDMA_WRITE, "RETRY_EXC_ERR")
        return
    wire.detach(fanin)
    rxe.post(RequestOpcode.SEND, SOURCE, 10, to=fanin)
    wire.run(lambda: wire.counts["RC_SEND_ONLY from the guest"] > 20, 60, "more than seven retries")
    assert rxe.state() == "RTS"


def test_invalidate(connect):
    """A SEND of rxe takes the rights from a region of Fanin's."""
    fanin, rxe = connect()
    start, key = fanin.register([*RIGHTS, "REMOTE_INVALIDATE"], 8192)
    fanin.post_receive(TARGET, 100)
    rxe.post(RequestOpcode.RDMA_WRITE, SOURCE, 10, to=fanin, at=start - fanin.start, rkey=key)
    rxe.post(RequestOpcode.SEND_WITH_INV, SOURCE, 10, to=fanin, immediate=key, wr_id=2)
    assert statuses(rxe.sent(2)) == [(1, "SUCCESS"), (2, "SUCCESS")]
    assert statuses(fanin.received()) == [(1, "SUCCESS")]
    fails(rxe, fanin, RequestOpcode.RDMA_WRITE, "REM_ACCESS_ERR", at=start - fanin.start, rkey=key)


def test_invalidate_of_a_region_that_rxe_can_not_invalidate(connect):
    """rxe acknowledges the message before it finds out; a plain region of verbs has no right for this."""
    fanin, rxe = connect()
    _, key = rxe.register(RIGHTS, 8192)
    rxe.post_receive(TARGET, 100)
    fanin.post(RequestOpcode.SEND_WITH_INV, SOURCE, 10, to=rxe, immediate=key)
    assert statuses(fanin.sent()) == [(1, "SUCCESS")]
    assert statuses(rxe.received()) == [(1, "REM_INV_REQ_ERR")]
    assert rxe.state() == "ERR"
