"""Collectives and ordinary traffic share the port: while both have work, neither gets far ahead or starves."""

import random

import numpy as np
import pytest
from numba import int64

from fanin_nic.daemon.loop import fair_turns
from fanin_nic.daemon.loop.fair_turns import BURST, BUSY_SLOTS, MAX_HOLD, RATIO
from fanin_nic.daemon.loop.lane_record import LANE, lane_at
from fanin_nic.engine.records.accessors import U64
from fanin_nic.engine.records.tables import ENGINE
from fanin_nic.native.compiled import compiled
from fanin_nic.port.descriptors import PORT
from fanin_nic.transport.records.tables import TRANSPORT

pytestmark = pytest.mark.unit

TURNS = 2000
MOST = 1 << 20  # bytes of a kind in one turn


@compiled
def share_port(address, now):
    """The loop's part in a turn. Returns 1 if collectives are held, plus 2 if ordinary traffic is."""
    lane = lane_at(U64(address))
    fair_turns.share_port(lane, U64(now))
    return int64(fair_turns.collectives_held(lane)) + 2 * int64(fair_turns.ordinary_held(lane))


class Lane:
    """The records of the rule. Both kinds have work, unless a test says otherwise."""

    def __init__(self) -> None:
        self.record, self.port = np.zeros(1, LANE), np.zeros(1, PORT)
        self.engine, self.transport = np.zeros(1, ENGINE), np.zeros(1, TRANSPORT)
        for name in ("engine", "port", "transport"):
            self.record[name] = getattr(self, name).ctypes.data
        self.record["ordinary_end"] = 1
        self.engine["slots_used"], self.transport["ready_tail"] = BUSY_SLOTS, 1
        self.now = 1 << 40

    def held(self) -> tuple[bool, bool]:
        """Begin a turn. Returns whether collectives are held, and ordinary traffic."""
        both = share_port(int(self.record.ctypes.data), self.now)
        return bool(both & 1), bool(both & 2)

    def move(self, collective: int, ordinary: int) -> tuple[int, int]:
        """A turn in which each kind moves so many bytes, if it is not held. Returns the moved bytes."""
        held = self.held()
        moved = (0 if held[0] else collective, 0 if held[1] else ordinary)
        self.port["collective_bytes"] += moved[0]
        self.port["ordinary_bytes"] += moved[1]
        return moved

    def exhaust(self, kind: int) -> None:
        """Let one kind move until it is held."""
        for _ in range(BURST // MOST + 2):
            if self.held()[kind]:
                return
            self.move(*((MOST, 0) if kind == 0 else (0, MOST)))
        pytest.fail("it is never held")


SHARES = {  # bytes of the kinds in a turn
    "as much": lambda _: (MOST, MOST),
    "more collectives": lambda _: (MOST, 5000),
    "more ordinary traffic": lambda _: (5000, MOST),
    "at random": lambda rng: (rng.randrange(MOST), rng.randrange(MOST)),
    "in bursts": lambda rng: (rng.choice([0, 0, 0, MOST]), rng.randrange(MOST // 4)),
}


@pytest.mark.parametrize("name", SHARES)
def test_neither_gets_far_ahead(name: str) -> None:
    lane, rng, total = Lane(), random.Random(name), [0, 0]
    for turn in range(TURNS):
        moved = lane.move(*SHARES[name](rng))
        assert any(moved) or name == "in bursts", f"turn {turn}: both are held"
        total = [before + more for before, more in zip(total, moved, strict=True)]
        for own, other in (total, reversed(total)):
            assert own <= RATIO * other + BURST + MOST
    assert min(total) * (RATIO + 1) >= sum(total) - (RATIO + 1) * (BURST + MOST)


@pytest.mark.parametrize(("kind", "member"), [(0, ("transport", "ready_tail")), (1, ("engine", "slots_used"))])
def test_alone_nobody_is_held(kind: int, member: tuple[str, str]) -> None:
    """The other kind is idle, or has short messages."""
    lane, share = Lane(), (MOST, 0) if kind == 0 else (0, MOST)
    lane.exhaust(kind)
    record, name = member
    getattr(lane, record)[name] -= 1
    for _ in range(TURNS):
        assert lane.move(*share)[kind] == MOST


@pytest.mark.parametrize("kind", [0, 1])
def test_nobody_is_held_for_long(kind: int) -> None:
    """The other kind has work but waits for its peers."""
    lane, share, moved = Lane(), (MOST, 0) if kind == 0 else (0, MOST), 0
    step = MAX_HOLD // 10
    for _ in range(100):
        lane.now += step
        moved += lane.move(*share)[kind]
    assert 100 // 11 * MOST <= moved <= BURST + (100 // 10 + 1) * MOST


def test_collectives_are_not_held_without_queue_pairs() -> None:
    lane = Lane()
    lane.exhaust(0)
    lane.record["ordinary_end"] = 0
    assert not lane.held()[0]
