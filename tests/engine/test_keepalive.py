"""A device sends to each neighbour once in a keep-alive interval. Silence for the detection time means loss."""

import numpy as np
import pytest

from fanin_nic.engine import events
from fanin_nic.engine.engine import Timing
from fanin_nic.engine.records.tables import JobState
from fanin_wire.abi import Route, Status
from fanin_wire.fields import WAIT_BODY, Opcode
from tests.engine.rig import (
    MILLISECOND,
    NEXT,
    PARENT,
    PREVIOUS,
    SECOND,
    NicRig,
    Rig,
    Sent,
    SwitchRig,
    child_address,
    f32,
    pack,
    place,
)

INTERVAL, BOUND = Timing().keepalive, Timing().detection


def addressed(sent: list[Sent], opcode: Opcode = Opcode.KEEPALIVE) -> set[int]:
    """Destinations of packets of an opcode."""
    return {packet.destination for packet in sent if packet.opcode == opcode}


def named(sent: list[Sent]) -> set[tuple[int, int, int]]:
    """The content of ABORTs: status, kind, bits."""
    return {(p.ceth["status"], p.ceth["seg"], p.ceth["node_bitmap"]) for p in sent if p.opcode == Opcode.ABORT}


def listen(rig: Rig, seconds: int, *sources: tuple[int, int]) -> list[Sent]:
    """Let time pass while only these (address, source) send KEEPALIVE. Returns all packets."""
    sent = []
    for _ in range(seconds * SECOND // INTERVAL):
        for address, source in sources:
            rig.receive(Opcode.KEEPALIVE, address, source=source)
        sent += rig.tick(INTERVAL)
    return sent


# Speaking


def test_whatever_is_sent_counts_as_a_keepalive() -> None:
    rig = NicRig()
    for position in range(4):
        rig.tick(INTERVAL // 2)
        rig.post(f32(position), mid=position)
        rig.from_parent(Opcode.RESULT, position, f32(1).tobytes(), mid=position, dtype=1, contributions=2)
    assert rig.count("tx_KEEPALIVE") == 0
    assert rig.count("tx_CONTRIBUTION") == 4


def test_results_are_keepalives_of_a_switch() -> None:
    rig = SwitchRig()
    for position in range(3):
        rig.tick(INTERVAL - 1)
        for bit in (0, 1):
            rig.contribute(bit, position, f32(1))
    assert rig.count("tx_KEEPALIVE") == 0


def test_switch_speaks_to_the_switch_above() -> None:
    rig = SwitchRig(above=((PARENT, 1, 0b11),))
    (up,) = (packet for packet in rig.tick(INTERVAL) if packet.destination == PARENT)
    assert (up.opcode, up.ceth["source"]) == (Opcode.KEEPALIVE, 1)


def test_ring_node_speaks_to_both_neighbours_until_the_previous_has_left() -> None:
    rig = NicRig(Route.RING)
    assert addressed(rig.tick(INTERVAL)) == {NEXT, PREVIOUS}
    rig.engine.leave(0, 9, rig.now)
    rig.settle()
    rig.receive(Opcode.LEAVE_ACK, NEXT)
    assert addressed(rig.tick(INTERVAL)) == {PREVIOUS}
    rig.receive(Opcode.LEAVE, PREVIOUS, source=2)
    assert rig.job["state"] == JobState.FREE


# Listening


def test_all_the_silent_are_named_at_once() -> None:
    rig = SwitchRig(3)
    assert named(rig.tick(BOUND + 1)) == {(Status.PEER_LOST, 1, 0b111)}
    assert rig.job["state"] == JobState.FREE  # no member remains that would leave


def test_nic_without_anything_under_way_notices_that_the_device_above_is_lost() -> None:
    rig = NicRig()
    listen(rig, 20, (PARENT, 0))
    rig.tick(BOUND - INTERVAL)
    assert rig.job["state"] == JobState.ACTIVE
    assert named(rig.tick(1)) == {(Status.PEER_LOST, 0, 0b11)}


def test_both_sides_of_a_ring_of_two_are_heard_by_any_packet() -> None:
    rig = NicRig(Route.RING, join=False)
    rig.join(0, node_count=2, next_address=NEXT, previous_address=NEXT)
    rig.receive(Opcode.CONFIG_ACK, NEXT, (8).to_bytes(4, "big") + (4).to_bytes(4, "big"))
    assert rig.job["state"] == JobState.ACTIVE
    for _ in range(10):
        rig.receive(Opcode.ACK, NEXT, **place(0), source=1)
        assert named(rig.tick(SECOND)) == set()
    assert rig.job["state"] == JobState.ACTIVE


def test_forming_job_without_keepalives_frees_its_slots() -> None:
    """A late CONFIG of an ended job forms it anew; so does one whose sender has died."""
    rig = SwitchRig(join=False)
    rig.join(0)
    rig.tick(BOUND)
    assert rig.job["slots"]
    rig.tick(1)
    assert (rig.job["state"], rig.job["slots"]) == (JobState.ABORTED, 0)
    sent = rig.join(1)
    assert named(sent) == {(Status.PEER_LOST, 1, 0b01)}


def test_nak_of_a_child_that_has_left_means_nothing() -> None:
    rig = SwitchRig(3)
    rig.receive(Opcode.LEAVE, child_address(1), source=1)
    assert rig.receive(Opcode.NAK, child_address(1), source=1, status=Status.NOT_CONFIGURED) == []
    assert rig.job["state"] == JobState.ACTIVE


@pytest.mark.parametrize("source", [(child_address(1), 0), (PARENT, 0), (child_address(0), 7)])
def test_keepalive_of_a_stranger_is_dropped(source: tuple[int, int]) -> None:
    rig = SwitchRig()
    rig.receive(Opcode.KEEPALIVE, source[0], source=source[1])
    assert rig.count("drop_sender") == 1


# A device that stood still


def test_own_standstill_is_not_silence_of_neighbours() -> None:
    rig = SwitchRig()
    rig.now += 60 * SECOND
    events.note_stall(rig.engine.base, 60 * SECOND, rig.now)
    assert named(rig.tick(BOUND - SECOND)) == set()
    assert named(rig.tick(SECOND + 1)) == {(Status.PEER_LOST, 1, 0b11)}


def test_time_of_the_last_packet_is_never_in_the_future() -> None:
    rig = NicRig(Route.RING)
    events.note_stall(rig.engine.base, 60 * SECOND, rig.now)
    heard = [int(rig.job[name]) for name in ("heard_next", "heard_previous")]
    assert np.max(heard) <= rig.now


@pytest.mark.parametrize("seconds", [0.2, 1.0, 60.0])
def test_keepalives_follow_the_detection_time(seconds: float) -> None:
    timing = Timing.of_detection(seconds)
    rig = NicRig(timing=timing)
    assert rig.tick(timing.keepalive - MILLISECOND) == []
    assert addressed(rig.tick(MILLISECOND)) == {PARENT}
    assert timing.keepalive * 10 == timing.detection < timing.ageing
    rig.tick(timing.detection)
    assert rig.job["state"] == JobState.ABORTED


def test_ring_node_sends_keepalives_while_the_job_forms() -> None:
    """In a large ring the answer reaches the first nodes last; the others run already, and listen."""
    rig = NicRig(Route.RING, join=False)
    rig.join(0)
    for _ in range(3):
        assert addressed(rig.tick(INTERVAL)) == {PREVIOUS}


def test_a_late_rank_is_not_taken_for_a_device_that_stood_still() -> None:
    """Nothing is overdue when the stream goes on: a dead neighbour of another job would be excused."""
    rig = NicRig()
    rig.post(np.arange(64, dtype="f4"))  # four segments
    for _ in range(20):
        rig.tick(INTERVAL)
        rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(0), token=1)
    rig.now += INTERVAL // 2
    sent = rig.from_parent(Opcode.RESULT, 3, bytes(64), dtype=1)  # overtakes what was never asked for
    assert rig.engine.header["next_deadline"] >= rig.now
    assert [packet for packet in (*sent, *rig.tick(0)) if packet.opcode == Opcode.PROBE] == []
