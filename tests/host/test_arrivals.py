"""The device's end of an arrival ring: its content, its wrap, and impossible counters."""

import numpy as np
import pytest

from fanin_nic.engine.records.actions import ACTION
from fanin_nic.hostif import rings
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import record_at
from fanin_wire import abi

UNIT, UNITS = abi.ARRIVAL_UNIT, abi.ARRIVAL_UNITS
GUARD = 4096  # bytes around the ring, which must not change
action_at = record_at(ACTION)


@compiled
def store(ring, action):
    """`store_arrival`, for Python."""
    rings.store_arrival(ring, action_at(action))


class Ring:
    """A ring in the middle of memory that is watched."""

    def __init__(self, producer: int = 0, consumer: int = 0, seen: int | None = None) -> None:
        self.memory = np.full(2 * GUARD + rings.ARRIVAL_RING_BYTES, 0xA5, np.uint8)
        self.bytes = self.memory[GUARD:-GUARD]
        self.head = self.bytes[: abi.RING.itemsize].view(abi.RING)[0]
        self.head["producer"], self.head["consumer"] = producer, consumer
        self.head["consumer_seen"] = consumer if seen is None else seen
        self.units = self.bytes[abi.RING.itemsize :].reshape(UNITS, UNIT)

    def store(self, length: int, mid: int = 7) -> int:
        """Let a message of `length` bytes arrive. Returns the units that it takes, with those that are skipped."""
        payload = np.arange(length, dtype=np.uint8)
        action = np.zeros(1, ACTION)
        action["payload"], action["length"], action["jid"], action["mid"] = payload.ctypes.data, length, 5, mid
        before = int(self.head["producer"])
        store(np.uint64(self.bytes.ctypes.data), np.uint64(action.ctypes.data))
        assert (self.memory[:GUARD] == 0xA5).all()
        assert (self.memory[-GUARD:] == 0xA5).all()
        return (int(self.head["producer"]) - before) % 2**32

    def arrival(self, unit: int) -> np.void:
        """The head of an arrival."""
        return self.units[unit][: abi.ARRIVAL.itemsize].view(abi.ARRIVAL)[0]


@pytest.mark.parametrize(("length", "units"), [(0, 1), (48, 1), (49, 2), (abi.MAX_ARRIVAL, 257)])
def test_a_message_takes_whole_units(length: int, units: int) -> None:
    ring = Ring()
    assert ring.store(length) == units
    head = ring.arrival(0)
    assert (head["jid"], head["mid"], head["length"]) == (5, 7, length)
    data = ring.units.reshape(-1)[abi.ARRIVAL.itemsize :][:length]
    assert np.array_equal(data, np.arange(length, dtype=np.uint8))


@pytest.mark.parametrize("lap", [0, 2**32 - UNITS])
def test_no_message_goes_over_the_end(lap: int) -> None:
    ring = Ring((lap + UNITS - 1) % 2**32, (lap + UNITS - 1) % 2**32)
    assert ring.store(49) == 3
    assert ring.arrival(UNITS - 1)["length"] == abi.NO_ARRIVAL
    assert ring.arrival(0)["length"] == 49


def test_a_full_ring_takes_nothing_until_its_rank_has_looked() -> None:
    ring = Ring()
    assert sum(ring.store(8) for _ in range(UNITS + 1)) == UNITS
    ring.head["consumer"] = 1
    assert (ring.store(49), ring.store(8), ring.store(8)) == (0, 1, 0)


@pytest.mark.parametrize(("producer", "consumer"), [(5, 6), (UNITS + 1, 0), (0, 2**31), (2**31, 0)])
def test_counters_that_make_no_sense_leave_no_room(producer: int, consumer: int) -> None:
    assert Ring(producer, consumer).store(8) == 0


@pytest.mark.parametrize("seen", [2**31, UNITS, 2**32 - 1])
def test_what_a_client_says_was_seen_harms_only_itself(seen: int) -> None:
    assert Ring(UNITS, 0, seen).store(8) in (0, 1)
