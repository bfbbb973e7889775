"""The loop of a device obeys fair turns: a held kind of traffic does nothing in that turn."""

import contextlib
import time
from collections.abc import Iterator

import numpy as np
import pytest

from fanin_nic.daemon.lanes.ordinary_host import OrdinaryHost
from fanin_nic.daemon.loop.fair_turns import BUSY_SLOTS
from fanin_nic.daemon.loop.lane import Reason
from fanin_nic.port.sockets import open_udp_ports
from fanin_wire.abi import ContributorClass, DType, Op
from tests.lanes.rig import CHUNK
from tests.lanes.stepped_lanes import LKEY, SteppedLanes

TRIES = 10_000
SEGMENTS = 6


class HeldTurns:
    """A lane with work of both kinds: a message of the client, and a queue pair with work. This one is row 0 of the
    table, not a real queue pair, so its turn has no other effect."""

    def __init__(self, address: str) -> None:
        self.ordinary = OrdinaryHost(address, 9000)
        self.lanes = SteppedLanes(open_udp_ports(address, 9000, 1), self.ordinary)
        (self.core,) = self.lanes.cores
        self.record, self.engine = self.core._record[0], self.core.engine.header
        self.transport = self.ordinary.transport.header
        self.memory = np.zeros(2 * SEGMENTS * CHUNK, np.uint8)
        self.lanes.register(self.memory)
        self.lanes.joined()

    def post(self) -> None:
        half, place = self.memory.nbytes // 2, self.memory.ctypes.data
        self.lanes.post(
            length=half, block=half, segments=SEGMENTS, source_lkey=LKEY, destination_lkey=LKEY,
            op=Op.SUM, dtype=DType.I32, contributors=ContributorClass.ALL,
            address=np.array([(place, 0, 1, 0, 1, place + half)], "u8,u4,u4,u4,u4,u8"),
        )  # fmt: skip

    def turn(self, *, collective_credit: int, ordinary_credit: int) -> None:
        """One turn with these credits, after which a queue pair is ready. Both kinds could be held in it."""
        self.record["ordinary_end"] = 1
        self.record["collective_credit"], self.record["ordinary_credit"] = collective_credit, ordinary_credit
        self.engine["slots_used"] += BUSY_SLOTS
        self.record["collective_free"] = self.record["ordinary_free"] = time.monotonic_ns()
        assert self.lanes.turn(0) == Reason.INTERRUPTED
        self.engine["slots_used"] -= BUSY_SLOTS

    def has_served_queue_pair(self) -> bool:
        """Whether a queue pair has had its turn since the last call. Another one is ready then."""
        served = self.transport["ready_head"] == self.transport["ready_tail"]
        if served:
            self.transport["ready_tail"] += 1
        return bool(served)

    def segments(self) -> int:
        return int(self.core.engine.counters()["segments"])


@pytest.fixture
def held(free_address: str) -> Iterator[HeldTurns]:
    turns = HeldTurns(free_address)
    with contextlib.closing(turns.lanes):
        yield turns


def test_collectives_that_are_held_read_nothing(held: HeldTurns) -> None:
    """A hold ends after a while by the clock. A turn that began too late has the credit 0."""
    held.has_served_queue_pair()
    held.post()
    for _ in range(TRIES):
        before = held.segments()
        held.turn(collective_credit=-1, ordinary_credit=-1)
        if held.record["collective_credit"] < 0:
            assert held.segments() == before
            break
        held.lanes.completions()
        held.post()
    else:
        pytest.fail("every turn was late")
    held.turn(collective_credit=0, ordinary_credit=-1)
    assert held.segments() == before + SEGMENTS


def test_queue_pairs_that_are_held_have_no_turn(held: HeldTurns) -> None:
    held.has_served_queue_pair()
    for _ in range(TRIES):
        held.turn(collective_credit=-1, ordinary_credit=-1)
        if held.record["ordinary_credit"] < 0:
            assert not held.has_served_queue_pair()
            break
        held.has_served_queue_pair()
    else:
        pytest.fail("every turn was late")
    held.turn(collective_credit=-1, ordinary_credit=0)
    assert held.has_served_queue_pair()
