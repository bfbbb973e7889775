"""Header prediction ends in the same state as the ordinary path of a packet."""

import random
from typing import NamedTuple

import numpy as np
import pytest

from fanin_nic.engine import events
from fanin_nic.engine.packets.header_prediction import equal_under_mask
from fanin_nic.engine.records.actions import RECEIVED
from fanin_nic.engine.records.tables import CHILD
from fanin_nic.native.compiled import compiled
from fanin_wire import fields
from fanin_wire.abi import DType, JobFlag, Op
from fanin_wire.fields import BTH, CETH, Flag, Opcode
from tests.engine.rig import (
    ALL,
    CHUNK,
    JID,
    KEY,
    LIMITS,
    MILLISECOND,
    ONE,
    PARENT,
    SLOTS,
    STRANGER,
    Sent,
    SwitchRig,
    child_address,
    f32,
    pack,
    place,
)

CHILDREN = 3
PLACE = ("psn", "position", "mid", "sid", "seg", "segment_index")
OWN = [name for name in CHILD.names or () if not name.startswith("predicted_")]


class Usual(SwitchRig):
    """A switch without predictions."""

    def receive_bytes(self, data: bytes, source: int) -> list[Sent]:
        """Each packet takes the ordinary path."""
        self.engine.tables["children"]["predicted_length"] = 0
        return super().receive_bytes(data, source)


class Short(SwitchRig):
    """A real switch. `short`: packets that took the short path, without parsing of their headers."""

    short = 0

    def receive_bytes(self, data: bytes, source: int) -> list[Sent]:
        """Count the packets of the short path."""
        spare = self.engine.tables["headers"][-1:]
        spare["psn"] = NOT_SEEN
        sent = super().receive_bytes(data, source)
        self.short += int(spare["psn"][0]) == NOT_SEEN
        return sent


NOT_SEEN = 0xABCDEF


def state(rig: SwitchRig) -> dict[str, object]:
    """The state of the engine after the packets, without the stored headers."""
    tables = rig.engine.tables
    return {
        "engine": rig.engine.header.tobytes(),
        "counters": rig.engine.counters(),
        "jobs": tables["jobs"][: rig.engine.limits.jobs].tobytes(),
        "children": tables["children"][OWN].tolist(),
        "slots": tables["slots"].tobytes(),
        "payload": tables["payload"].tobytes(),
    }


def both(**changes) -> tuple[Short, Usual]:
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


# Differences to the packet before, and how often each may be chosen.
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


class FaultKind(NamedTuple):
    """The topic of a story: op, type, and the bytes of the segments at most positions and at every seventh."""

    op: Op
    dtype: DType
    lengths: tuple[int, int]


F32_SUM = FaultKind(Op.SUM, DType.F32, (8, CHUNK))
U8_SUM = FaultKind(Op.SUM, DType.U8, (5, 11))
F16_SUM = FaultKind(Op.SUM, DType.F16, (8, 6))
F32_MEAN = FaultKind(Op.MEAN, DType.F32, (8, 8))


def story(seed: int, kind: FaultKind, steps: int = 300) -> list[tuple]:
    """Packets of children in step: most are regular, some late, early, double, or unusual."""
    chance, at, packets = random.Random(seed), [0] * CHILDREN, []
    for _ in range(steps):
        bit = chance.randrange(CHILDREN)
        position, changes, source, opcode = at[bit], {}, child_address(bit), Opcode.CONTRIBUTION
        event = chance.random()
        if event < 0.1:
            position = max(0, position + chance.choice([-SLOTS, -2, -1, 1, SLOTS // 2, SLOTS, SLOTS + 1]))
        elif event < 0.12:
            changes = chance.choice(UNUSUAL)
        elif event < 0.14:
            source = chance.choice([STRANGER, PARENT, child_address((bit + 1) % CHILDREN)])
        elif event < 0.145:
            opcode = chance.choice([Opcode.LEAVE, Opcode.PROBE, Opcode.KEEPALIVE])
        elif at[bit] < min(at) + SLOTS // 2:  # as a child: never more than a window ahead
            at[bit] += 1
        length = kind.lengths[(position % 7 == 0) != (chance.random() < 0.005)]
        data = np.full(CHUNK, chance.choice([0.5, -0.0, np.nan, 3]), "<f4").tobytes()[:length]
        packets.append((opcode, bit, position, data if opcode == Opcode.CONTRIBUTION else b"", changes, source))
    return packets


@pytest.mark.parametrize("first", [0, 2**32 - 8])
@pytest.mark.parametrize(
    ("kind", "flags", "least"),
    [
        (F32_SUM, 0, 150),
        (F32_SUM, JobFlag.WIDE, 150),
        (F32_SUM, JobFlag.REPRODUCIBLE_RUN, 150),
        (U8_SUM, 0, 150),
        (F16_SUM, 0, 0),
        (F32_MEAN, 0, 150),
    ],
)
def test_both_ways_end_at_the_same_place(first: int, kind: FaultKind, flags: int, least: int) -> None:
    taken = sum(tell(seed, first, kind, flags) for seed in range(10))
    assert taken > least if least else taken == 0


def tell(seed: int, first: int, kind: FaultKind, flags: int) -> int:
    """Tell a story to switches with and without the short path. Returns how many packets took it."""
    room = SLOTS * CHILDREN  # buffers for what comes before its turn
    short, usual = rigs = both(first=first, join=False, limits=LIMITS._replace(slots=room, max_lease=room))
    for rig in rigs:
        for bit in range(CHILDREN):
            rig.join(bit, flags=flags)
    for number, (opcode, bit, position, data, changes, source) in enumerate(story(seed, kind)):
        position = (first + position) % 2**32
        values = place(position) | {"source": bit, "op": kind.op, "dtype": kind.dtype, "contributions": 1, "token": 0}
        values |= {"flags": ALL | Flag.HAS_DATA | Flag.WANTS_RESULT, "node_bitmap": 1 << bit}
        for rig in rigs:
            rig.now += MILLISECOND
        one, other = (rig.receive(opcode, source, data, **(values | changes)) for rig in rigs)
        assert one == other, f"seed {seed}, packet {number}"
        assert state(short) == state(usual), f"seed {seed}, packet {number}"
    return short.short


def test_packets_of_a_table_wait_where_it_says_so() -> None:
    """Their actions take half the room: the others are taken when those have been performed."""
    rig = SwitchRig(CHILDREN, limits=LIMITS._replace(actions=16))
    packets = [contribution(bit, position) for position in range(4) for bit in range(CHILDREN)]
    table = np.zeros(len(packets), RECEIVED)
    for row, bit, packet in zip(table, 4 * list(range(CHILDREN)), packets, strict=True):
        row["source"], row["length"], row["address"] = child_address(bit), len(packet), packet.ctypes.data
    taken, calls = 0, []
    while taken < len(table):
        taken = int(events.packets(rig.engine.base, table.ctypes.data, taken, len(table), rig.now))
        calls.append((taken, int(rig.engine.header["action_count"])))
        rig.device.perform()
    assert calls == [(9, 9), (12, 3)]  # more than half of 16, and what is left
    assert rig.count("rx_CONTRIBUTION") == len(packets)


def contribution(bit: int, position: int) -> np.ndarray:
    values = place(position) | {"version": fields.WIRE_VERSION, "jid": JID, "key": KEY, "length": 8, "source": bit}
    values |= {"op": Op.SUM, "dtype": DType.F32, "contributions": 1, "flags": ALL | Flag.HAS_DATA | Flag.WANTS_RESULT}
    bth = pack(BTH, opcode=Opcode.CONTRIBUTION, pkey=fields.DEFAULT_PKEY, dqpn=fields.COLLECTIVE_QPN)
    return np.frombuffer(bth + pack(CETH, **values) + f32(1, 2).tobytes(), np.uint8)


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
    """A job takes the record of an ended one, for which somebody still sends."""
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
    equal = compiled(lambda one, other: equal_under_mask(one, other))
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
