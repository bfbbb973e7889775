"""The device's ends of the rings, over plain memory."""

import numpy as np
import pytest

from fanin_nic.hostif import rings
from fanin_wire import abi

WRAP = (1 << 32) - 5  # counters start here, so that they wrap during the test


class Ring:
    def __init__(self, entry: np.dtype, depth: int, start: int = 0) -> None:
        self.memory = np.zeros(abi.RING.itemsize + depth * entry.itemsize, "u1")
        self.head = self.memory[: abi.RING.itemsize].view(abi.RING)
        self.entries = self.memory[abi.RING.itemsize :].view(entry)
        self.head["producer"] = self.head["consumer"] = start
        self.address = self.memory.ctypes.data


@pytest.mark.parametrize("start", [0, WRAP])
def test_fetch_takes_requests_in_order(start):
    ring, wqe = Ring(abi.WQE, abi.SQ_DEPTH, start), np.zeros(1, abi.WQE)
    assert not rings.fetch(ring.address, wqe.ctypes.data)
    for i in range(20):
        ring.entries[(start + i) % (1 << 32) % abi.SQ_DEPTH]["wr_id"] = 1000 + i
    ring.head["producer"] = (start + 20) % (1 << 32)
    assert rings.pending(ring.address) == 20
    for i in range(20):
        assert rings.fetch(ring.address, wqe.ctypes.data)
        assert wqe["wr_id"] == 1000 + i
    assert not rings.fetch(ring.address, wqe.ctypes.data)
    assert ring.head["consumer"] == (start + 20) % (1 << 32)


@pytest.mark.parametrize("distance", [abi.SQ_DEPTH + 1, 1 << 31, (1 << 32) - 1])
def test_impossible_counters_look_empty(distance):
    ring, wqe = Ring(abi.WQE, abi.SQ_DEPTH), np.zeros(1, abi.WQE)
    ring.head["producer"] = distance
    assert rings.pending(ring.address) == 0
    assert not rings.fetch(ring.address, wqe.ctypes.data)


@pytest.mark.parametrize("start", [0, WRAP])
def test_complete_fills_the_ring_and_no_more(start):
    ring, cqe = Ring(abi.CQE, abi.CQ_DEPTH, start), np.zeros(1, abi.CQE)
    for i in range(abi.CQ_DEPTH):
        cqe["wr_id"] = i
        assert rings.complete(ring.address, cqe.ctypes.data)
    assert not rings.complete(ring.address, cqe.ctypes.data)
    order = [(start + i) % (1 << 32) % abi.CQ_DEPTH for i in range(abi.CQ_DEPTH)]
    assert ring.entries["wr_id"][order].tolist() == list(range(abi.CQ_DEPTH))
    ring.head["consumer"] += 1
    assert rings.complete(ring.address, cqe.ctypes.data)


def test_sleep_flags_of_many():
    pages = np.zeros(3, abi.DOORBELL)
    doorbells = np.array([pages.ctypes.data + i * pages.itemsize for i in range(3)], "u8")
    rings.set_sleeping(doorbells.ctypes.data, 3, 1)
    assert pages["device_sleeping"].tolist() == [1, 1, 1]
    rings.set_sleeping(doorbells.ctypes.data, 2, 0)
    assert pages["device_sleeping"].tolist() == [0, 0, 1]
