"""RC traffic between two daemons over links that lose packets: everything arrives, once, in order."""

import shutil
from collections.abc import Iterator

import numpy as np
import pytest

from fanin import device_status
from fanin.verbs import SendWR
from fanin.verbs.enums import IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND
from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import cut_super_packets, loss, lost
from tests.e2e.fabrics import Bench
from tests.ordinary.conftest import Connected
from tests.ordinary.sides import sockets

pytestmark = pytest.mark.netns

PER_MILLE = (30, 100)
FAST = {"timeout": 10, "max_rd_atomic": 4, "max_dest_rd_atomic": 4}  # 4 ms
SIZE, ROUNDS = 300_001, 8
SENDS, SHORT = 60, 2_000
ADDITIONS = 30


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    """Two NICs in namespaces, whose links carry, and lose, single packets."""
    if shutil.which("nft") is None:
        pytest.skip("the program `nft` (nftables), to lose packets in the kernel")
    try:
        namespaces.require()
    except ToolError as error:
        pytest.skip(error.cause)
    found = bench.up(Shape(2, 2, netns=True))
    cut_super_packets(found.fabric)
    return found


@pytest.fixture(params=PER_MILLE, autouse=True)
def losing(request: pytest.FixtureRequest, running: Running) -> Iterator[None]:
    """Both directions lose packets during a test, and the devices must have repeated some."""
    before = resent(running)
    with loss(running.fabric, request.param):
        yield
        assert lost(running.fabric) > 0
    assert resent(running) > before


def resent(running: Running) -> int:
    return sum(int(device_status(socket)["counters"]["ordinary_resent"]) for socket in sockets(running))


def test_writes_and_reads(connected: Connected) -> None:
    one, other = connected(**FAST)
    for number in range(ROUNDS):
        one.fill()
        other.data[:] = 0
        one.send(IBV_WR_RDMA_WRITE, one.piece(SIZE, 3), remote=(other, 5), wr_id=number)
        one.send(IBV_WR_RDMA_READ, one.piece(SIZE, 1 << 20), remote=(other, 5), wr_id=100 + number)
        assert [found.wr_id for found in (one.completion(), one.completion())] == [number, 100 + number]
        for found in (other.data[5:], one.data[1 << 20 :]):
            assert np.array_equal(found[:SIZE], one.data[3 : 3 + SIZE])
        assert not other.data[:5].any()
        assert not other.data[5 + SIZE :].any()


def test_sends_arrive_once_and_in_order(connected: Connected) -> None:
    one, other = connected(**FAST)
    for _ in range(ROUNDS):
        one.fill()
        for number in range(SENDS):
            other.receive(other.piece(SHORT, number * SHORT), wr_id=number)
        for number in range(SENDS):
            one.send(IBV_WR_SEND, one.piece(SHORT, number * SHORT), wr_id=number)
        for side in (one, other):
            assert [found.wr_id for found in side.completions(SENDS)] == list(range(SENDS))
        assert np.array_equal(other.data[: SENDS * SHORT], one.data[: SENDS * SHORT])
        assert not other.cq.wait(0.02)  # nothing comes twice


def test_atomics_happen_once(connected: Connected) -> None:
    """A lost response is repeated, not computed again. A WRITE before each makes losses likely."""
    one, other = connected(**FAST)
    word, found = other.data[:8].view(np.uint64), one.data[:8].view(np.uint64)
    word[0] = 0
    for number in range(ADDITIONS):
        one.send(IBV_WR_RDMA_WRITE, one.piece(20_000, 64), remote=(other, 64))
        request = SendWR(1, IBV_WR_ATOMIC_FETCH_AND_ADD, sg=[one.piece(8)])
        request.set_wr_atomic(other.mr.rkey, other.mr.address, 3)
        one.qp.post_send(request)
        assert one.statuses(2) == ["SUCCESS"] * 2
        assert int(found[0]) == 3 * number
    assert int(word[0]) == 3 * ADDITIONS
