"""The last node of a ring below a switch: a node of the ring to its neighbours, a child to the switch."""

import numpy as np
import pytest

from fanin_nic.engine.records.tables import JobState
from fanin_wire.abi import DType, JobFlag, Op, Route, Status
from fanin_wire.fields import CONFIG_ACK_BODY, CONFIG_BODY, HOP_BODY, WAIT_BODY, Flag, Opcode
from tests.engine.rig import (
    ALL,
    MILLISECOND,
    NEXT,
    PARENT,
    PREVIOUS,
    SECOND,
    SLOTS,
    NicRig,
    Sent,
    f32,
    pack,
    place,
    unpack,
)

LAST, NODES = 2, 3


class LastNode(NicRig):
    """Node 2 of a ring of 3 below a switch, where it is bit 0 of 2. All have joined."""

    def __init__(self, ranks: int = 1, *, formed: bool = True) -> None:
        super().__init__(Route.RING, ranks, join=False)
        for rank in range(ranks):
            self.join(rank, node_index=LAST, node_count=NODES, flags=JobFlag.FIXED_START, hop_count=1)
        if formed:
            self.receive(Opcode.CONFIG, PREVIOUS, self.config_of_previous(), source=1)
            self.receive(Opcode.CONFIG_ACK, PARENT, pack(CONFIG_ACK_BODY, slots=SLOTS, window=SLOTS // 2))

    def config_of_previous(self) -> bytes:
        return self.ring_config(1)

    def partial(self, position: int, *values: float, nodes: int = 0b100) -> list[Sent]:
        """CONTRIBUTION of nodes 0 and 1, which want the result."""
        ceth = place(position) | {"op": Op.SUM, "dtype": DType.F32, "flags": ALL | Flag.HAS_DATA, "contributions": 2}
        ceth |= {"node_bitmap": nodes, "rank_bitmap": 0b011, "source": 1}
        return self.receive(Opcode.CONTRIBUTION, PREVIOUS, f32(*values).tobytes(), **ceth)

    def acknowledge(self, position: int, results: int) -> list[Sent]:
        ceth = {"position": position, "seg": position % SLOTS, "rank_bitmap": results, "source": 0}
        return self.receive(Opcode.ACK, NEXT, **ceth)


def test_ring_with_a_device_above_must_have_a_fixed_start() -> None:
    rig = NicRig(Route.RING, join=False)
    rig.join(0, node_index=LAST, hop_count=1)
    assert rig.answer()[0] == Status.INVALID_REQUEST


@pytest.mark.parametrize("hops", [1, 20, 2**32 - 1])
def test_job_on_one_node_has_nothing_above(hops: int) -> None:
    rig = NicRig(Route.LOCAL, join=False)
    rig.join(0, hop_count=hops)
    assert rig.answer()[0] == Status.INVALID_REQUEST
    assert rig.job["state"] == JobState.FREE


def test_ring_is_configured_before_the_switch_is_asked() -> None:
    rig = LastNode(formed=False)
    assert rig.last == []
    sent = rig.receive(Opcode.CONFIG, PREVIOUS, rig.config_of_previous(), source=1)
    assert [(packet.opcode, packet.destination) for packet in sent] == [
        (Opcode.CONFIG, PARENT),
        (Opcode.CONFIG_ACK, PREVIOUS),
    ]
    body = unpack(CONFIG_BODY, sent[0].payload)
    assert (body["route"], body["hops"], body["flags"]) == (Route.TREE, 1, 0)
    hop = unpack(HOP_BODY, sent[0].payload[CONFIG_BODY.size :])
    assert (hop["bit"], hop["mask"]) == (0, 0b11)
    (ack,) = rig.receive(Opcode.CONFIG_ACK, PARENT, pack(CONFIG_ACK_BODY, slots=SLOTS, window=SLOTS // 2))
    assert (ack.opcode, ack.destination, ack.ceth["status"]) == (Opcode.CONFIG_ACK, PREVIOUS, Status.SUCCESS)
    assert rig.job["state"] == JobState.ACTIVE


def test_silence_is_asked_about_where_it_is() -> None:
    rig = LastNode()
    rig.post(f32(1))
    rig.partial(0, 5)
    (probe,) = [packet for packet in rig.tick(300 * MILLISECOND) if packet.opcode == Opcode.PROBE]
    assert (probe.destination, probe.ceth["source"]) == (PARENT, 0)
    rig.from_parent(Opcode.RESULT, 0, f32(20).tobytes(), dtype=DType.F32)
    (probe,) = [packet for packet in rig.tick(300 * MILLISECOND) if packet.opcode == Opcode.PROBE]
    assert (probe.destination, probe.ceth["source"]) == (NEXT, LAST)


def test_keepalives_go_to_all_three() -> None:
    rig = LastNode()
    sent = rig.tick(SECOND)
    assert {(packet.opcode, packet.destination) for packet in sent} == {
        (Opcode.KEEPALIVE, PARENT),
        (Opcode.KEEPALIVE, NEXT),
        (Opcode.KEEPALIVE, PREVIOUS),
    }


def test_it_leaves_both() -> None:
    rig = LastNode()
    rig.engine.leave(0, 9, rig.now)
    sent = rig.settle()
    assert {(packet.opcode, packet.destination) for packet in sent} == {(Opcode.LEAVE, PARENT), (Opcode.LEAVE, NEXT)}
    rig.receive(Opcode.LEAVE, PREVIOUS, source=1)
    rig.receive(Opcode.LEAVE_ACK, NEXT, source=LAST)
    assert rig.job["state"] == JobState.LEAVING
    (again,) = [packet for packet in rig.tick(SECOND) if packet.opcode == Opcode.LEAVE]
    assert again.destination == PARENT
    rig.receive(Opcode.LEAVE_ACK, PARENT, source=0)
    assert rig.job["state"] == JobState.FREE


@pytest.mark.parametrize(
    ("source", "named", "kind", "bits"),
    [(PARENT, 1, 2, 0b10), (PARENT, 2, 3, 0b10), (NEXT, 1, 1, 0b01), (NEXT, 2, 2, 0b10)],
)
def test_members_named_by_an_abort(source: int, named: int, kind: int, bits: int) -> None:
    rig = LastNode()
    rig.post(f32(1))
    sent = rig.receive(Opcode.ABORT, source, status=Status.PEER_LOST, seg=named, node_bitmap=bits)
    (completion,) = rig.device.completions
    assert (completion["missing_kind"], completion["missing"]) == (kind, bits)
    beside = {packet.ceth["seg"] for packet in sent if packet.opcode == Opcode.ABORT and packet.destination != PARENT}
    assert beside == {kind}


def test_failure_here_is_this_node_to_the_ring_and_this_child_to_the_switch() -> None:
    rig = LastNode(ranks=2)
    rig.engine.lose(1, rig.now)
    told = {(packet.destination, packet.ceth["seg"], packet.ceth["node_bitmap"]) for packet in rig.settle()}
    assert told == {(PARENT, 0, 0b1), (NEXT, 1, 1 << LAST), (PREVIOUS, 1, 1 << LAST)}


def test_members_the_switch_waits_for() -> None:
    rig = LastNode()
    rig.post(np.ones(1, "<f4"), deadline_ms=400)
    rig.partial(0, 5)
    body = pack(WAIT_BODY, oldest_age_us=5, oldest_child=1, kind=1)
    rig.receive(Opcode.WAIT, PARENT, body, **place(0), node_bitmap=0b10)
    rig.tick(400 * MILLISECOND)
    (completion,) = rig.device.completions
    assert (completion["status"], completion["missing_kind"], completion["missing"]) == (Status.TIMEOUT, 2, 0b10)
