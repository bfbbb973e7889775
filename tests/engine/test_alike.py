"""The shorter way of contributions like the one before them: it ends where the way of all packets ends."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fanin_nic.engine.packet.alike import equal_but_for_place
from fanin_nic.engine.tables import CHILD
from fanin_nic.native.compiled import compiled
from fanin_wire import fields
from fanin_wire.abi import DType, JobFlag, Op
from fanin_wire.fields import BTH, CETH, Flag, Opcode
from tests.engine.rig import (
    ALL,
    CHUNK,
    JID,
    KEY,
    ONE,
    PARENT,
    SLOTS,
    STRANGER,
    Sent,
    SwitchRig,
    child_address,
    f32,
    place,
)

CHILDREN = 3
PLACE = ("psn", "position", "mid", "sid", "seg", "segment_index")
OWN = [name for name in CHILD.names or () if not name.startswith("like_")]


class Usual(SwitchRig):
    """A switch that has seen nothing like what comes."""

    def receive_bytes(self, data: bytes, source: int) -> list[Sent]:
        """Each packet goes the way of all packets."""
        self.engine.tables["children"]["like_length"] = 0
        return super().receive_bytes(data, source)


class Short(SwitchRig):
    """A switch as it is. `short`: packets that went the shorter way: nobody has taken their headers apart."""

    short = 0

    def receive_bytes(self, data: bytes, source: int) -> list[Sent]:
        """Notes which way a packet goes."""
        spare = self.engine.tables["headers"][-1:]
        spare["psn"] = NOT_SEEN
        sent = super().receive_bytes(data, source)
        self.short += int(spare["psn"][0]) == NOT_SEEN
        return sent


NOT_SEEN = 0xABCDEF


def state(rig: SwitchRig) -> dict[str, object]:
    """What the packets have left behind, but for the headers that are kept."""
    tables = rig.engine.tables
    return {
        "counters": rig.engine.counters(),
        "jobs": tables["jobs"][: rig.engine.limits.jobs].tobytes(),
        "children": tables["children"][OWN].tolist(),
        "slots": tables["slots"].tobytes(),
        "payload": tables["payload"].tobytes(),
    }


def both(**changes) -> tuple[Short, Usual]:
    """The same switch twice."""
    return Short(CHILDREN, **changes), Usual(CHILDREN, **changes)


def test_contributions_alike_take_the_shorter_way() -> None:
    rig = Short(CHILDREN)
    for position in range(3 * SLOTS):
        for bit in range(CHILDREN):
            sent = rig.contribute(bit, position, f32(position, bit))
        assert {packet.payload for packet in sent} == {f32(3 * position, 3).tobytes()}
    assert rig.short == 3 * SLOTS * CHILDREN - CHILDREN  # all but the first of each child
    assert rig.count("rx_CONTRIBUTION") == rig.count("segments") == 3 * SLOTS * CHILDREN


def test_another_message_is_no_reason_for_the_longer_way() -> None:
    rig = Short(CHILDREN)
    for position in range(4):
        for bit in range(CHILDREN):
            sent = rig.contribute(bit, position, f32(1, 2), mid=100 + position, sid=0)
        assert {(packet.ceth["mid"], packet.ceth["sid"]) for packet in sent} == {(100 + position, 0)}
    assert rig.short == 3 * CHILDREN


# What differs from the one before, and how often it may be chosen.
UNUSUAL = (
    {"status": 5},
    {"op": Op.MAX},
    {"dtype": DType.I32},
    {"dtype": DType.F16},
    {"dtype": 77},
    {"flags": ALL},
    {"flags": ALL | Flag.HAS_DATA},
    {"flags": ONE | Flag.HAS_DATA | Flag.WANTS_RESULT},
    {"flags": ALL | Flag.HAS_DATA | Flag.WANTS_RESULT | Flag.WIDE},
    {"flags": ALL | Flag.HAS_DATA | Flag.WANTS_RESULT | Flag.HEARS_GROUP},
    {"key": KEY + 1},
    {"jid": JID + 1},
    {"source": 2},
    {"source": 9},
    {"source": 200},
    {"seg": 3},
    {"mid": 4},
    {"sid": 5},
    {"contributions": 4},
    {"token": 9},
    {"length": 4},
    {"version": fields.WIRE_VERSION + 1},
    {"lane": 1},
    {"node_bitmap": 0},
)


def story(seed: int, steps: int = 300) -> list[tuple]:
    """Packets of children in step: most as they should be, some late, early, double, or unusual."""
    chance, at, packets = random.Random(seed), [0] * CHILDREN, []
    for _ in range(steps):
        bit = chance.randrange(CHILDREN)
        position, changes, source = at[bit], {}, child_address(bit)
        kind = chance.random()
        if kind < 0.1:
            position = max(0, position + chance.choice([-SLOTS, -2, -1, 1, SLOTS // 2, SLOTS, SLOTS + 1]))
        elif kind < 0.12:
            changes = chance.choice(UNUSUAL)
        elif kind < 0.14:
            source = chance.choice([STRANGER, PARENT, child_address((bit + 1) % CHILDREN)])
        elif at[bit] < min(at) + SLOTS // 2:  # what a child does: never more than a window ahead
            at[bit] += 1
        data = np.full(CHUNK // 4 if position % 7 == 0 else 2, chance.choice([0.5, -0.0, np.nan, 3]), "<f4")
        packets.append((bit, position, data, changes, source))
    return packets


@pytest.mark.parametrize("first", [0, 2**32 - 8])
@pytest.mark.parametrize(("flags", "short_ways"), [(0, 1000), (JobFlag.WIDE, 1000), (JobFlag.REPRODUCIBLE_RUN, 0)])
def test_both_ways_end_at_the_same_place(first: int, flags: int, short_ways: int) -> None:
    taken = sum(tell(seed, first, flags) for seed in range(40))
    assert taken > short_ways if short_ways else taken == 0


def tell(seed: int, first: int, flags: int) -> int:
    """A story to a switch that has the shorter way and to one that has not; how often the one took it."""
    short, usual = rigs = both(first=first, join=False)
    for rig in rigs:
        for bit in range(CHILDREN):
            rig.join(bit, flags=flags)
    for number, (bit, position, data, changes, source) in enumerate(story(seed)):
        position = (first + position) % 2**32
        values = place(position) | {"source": bit, "op": Op.SUM, "dtype": DType.F32, "contributions": 1, "token": 0}
        values |= {"flags": ALL | Flag.HAS_DATA | Flag.WANTS_RESULT, "node_bitmap": 1 << bit}
        one, other = (rig.receive(Opcode.CONTRIBUTION, source, data.tobytes(), **(values | changes)) for rig in rigs)
        assert one == other, f"seed {seed}, packet {number}"
        assert state(short) == state(usual), f"seed {seed}, packet {number}"
    return short.short


def test_with_a_device_above() -> None:
    short, usual = both(above=((PARENT, 0, 0b11),))
    for position in range(2 * SLOTS):
        for bit in range(CHILDREN):
            sent = [rig.contribute(bit, position, f32(1, bit)) for rig in (short, usual)]
            assert sent[0] == sent[1]
        assert [packet.destination for packet in sent[0]] == [PARENT]
        for rig in (short, usual):
            result = place(position) | {"op": Op.SUM, "flags": ALL | Flag.HAS_DATA, "node_bitmap": 1}
            rig.receive(Opcode.RESULT, PARENT, f32(9, 9).tobytes(), **result)
        assert state(short) == state(usual)
    assert short.short == (2 * SLOTS - 1) * CHILDREN


def test_a_duplicate_is_not_added_again() -> None:
    rig = Short(CHILDREN)
    for position in (0, 1):
        for bit in (0, 1, 0, 1, 2):
            sent = rig.contribute(bit, position, f32(1, 2))
        assert {packet.payload for packet in sent} == {f32(3, 6).tobytes()}


def test_nothing_is_known_of_the_children_of_another_job() -> None:
    """A job takes the record of one that has ended; somebody still sends for that one."""
    rig = Short(CHILDREN)
    for bit in range(CHILDREN):
        rig.contribute(bit, 0, f32(1, 2))
    for bit in range(CHILDREN):
        rig.receive(Opcode.LEAVE, child_address(bit), source=bit)
    assert not rig.engine.tables["jobs"]["state"][:3].any()
    for bit in range(CHILDREN):
        rig.join(bit, ceth={"key": KEY + 1})
    before = rig.short
    assert rig.contribute(0, 1, f32(1, 2)) == []
    assert (rig.short, rig.count("drop_key")) == (before, 1)


def test_equal_headers_differ_in_their_place_only() -> None:
    equal = compiled(lambda one, other: equal_but_for_place(one, other))
    generator = np.random.default_rng(5)
    one = generator.integers(0, 256, fields.TRANSPORT_SIZE, np.uint8)
    allowed = set()
    for start, header in ((0, BTH), (BTH.size * 8, CETH)):
        for field in header.fields:
            if field.name in PLACE:
                allowed |= set(range(start + field.offset, start + field.offset + field.bits))
    for bit in range(8 * fields.TRANSPORT_SIZE):
        other = one.copy()
        other[bit // 8] ^= 0x80 >> bit % 8
        found = bool(equal(np.uint64(one.ctypes.data), np.uint64(other.ctypes.data)))
        assert found == (bit in allowed), f"bit {bit}"
    assert equal(np.uint64(one.ctypes.data), np.uint64(one.copy().ctypes.data))
