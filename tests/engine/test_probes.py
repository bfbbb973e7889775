"""Probes: a device asks soon in a lossy network, and seldom in a silent one."""

import numpy as np
import pytest

from fanin_nic.engine.engine import Timing
from fanin_nic.engine.records.tables import OutOfOrder, SlotState
from fanin_wire.abi import LKEY_PROCESS, ContributorClass, Route
from fanin_wire.fields import WAIT_BODY, Opcode
from tests.engine.rig import MILLISECOND, PARENT, NicRig, pack, place
from tests.engine.test_recovery import RTO, acknowledge, opcodes

REORDER = 20 * MILLISECOND
ROUND_TRIP = MILLISECOND
WINDOW = 4
SEGMENT = 16  # elements of f32


def posted(positions: int = WINDOW, **changes) -> NicRig:
    rig = NicRig()
    rig.post(np.zeros(positions * SEGMENT, "<f4"), **changes)
    return rig


def result(rig: NicRig, position: int, token: int = 0) -> list:
    """The result of a position comes: unasked, or as the answer to the PROBE with that token."""
    return rig.from_parent(Opcode.RESULT, position, bytes(4 * SEGMENT), token=token)


def asked(rig: NicRig, elapsed: int) -> list[int]:
    return [packet.ceth["position"] for packet in rig.tick(elapsed) if packet.opcode == Opcode.PROBE]


def probe_of(rig: NicRig, elapsed: int) -> int:
    """The token of the one PROBE that is due after `elapsed` ns."""
    (probe,) = [packet for packet in rig.tick(elapsed) if packet.opcode == Opcode.PROBE]
    return probe.ceth["token"]


def overtaken_and_lost(rig: NicRig, answer: Opcode) -> None:
    """Position 0 is overtaken by position 1, asked for, and answered a round trip later."""
    result(rig, 1)
    token = probe_of(rig, REORDER)
    rig.now += ROUND_TRIP
    if answer == Opcode.RESULT:
        result(rig, 0, token)
    else:
        body = pack(WAIT_BODY) if answer == Opcode.WAIT else b""
        rig.receive(answer, PARENT, body, **place(0), token=token, node_bitmap=0b10)


@pytest.mark.parametrize("answer", [Opcode.NEED, Opcode.RESULT, Opcode.WAIT])
def test_every_proof_of_a_loss_makes_the_next_one_be_asked_for_soon(answer: Opcode) -> None:
    """The contribution of this node was lost, the result to it, or the contribution of another."""
    rig = posted()
    overtaken_and_lost(rig, answer)
    assert rig.job["reorder"] <= 2 * ROUND_TRIP + 4000
    assert rig.job["lost_at"] == rig.now


@pytest.mark.parametrize("answer", [Opcode.NEED, Opcode.RESULT, Opcode.WAIT])
def test_every_answer_measures_the_round_trip(answer: Opcode) -> None:
    rig = posted()
    overtaken_and_lost(rig, answer)
    assert ROUND_TRIP <= rig.job["srtt"] <= ROUND_TRIP + 4000  # tokens are odd microseconds
    assert rig.job["rto"] < RTO


def test_result_that_was_only_late_makes_it_wait_longer() -> None:
    rig = posted()
    overtaken_and_lost(rig, Opcode.NEED)
    before = int(rig.job["reorder"])
    result(rig, 3)
    assert asked(rig, before) == [2]  # position 0 has just been sent again
    result(rig, 2)
    assert rig.job["reorder"] == 2 * before


def test_wait_for_a_late_rank_proves_no_loss() -> None:
    rig = posted()
    token = probe_of(rig, RTO)
    rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(0), token=token, node_bitmap=0b10)
    assert (rig.job["reorder"], rig.job["lost_at"]) == (REORDER, 0)


@pytest.mark.parametrize(("late", "times"), [(MILLISECOND, 1.4), (RTO, 9), (50 * RTO, 10)])
def test_device_that_waits_for_a_core_is_patient(late: int, times: float) -> None:
    rig = NicRig()
    rig.tick(late, late)
    rig.post(np.zeros(SEGMENT, "<f4"))
    assert asked(rig, int(times * RTO) - 1) == []
    assert asked(rig, 1) == [0]


def test_lowest_silent_position_is_asked_for_alone() -> None:
    rig = posted()
    assert asked(rig, RTO) == [0]
    rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(0), node_bitmap=0b10)
    assert asked(rig, RTO) == []
    assert asked(rig, RTO) == [0]


def test_positions_as_silent_as_a_lost_one_are_probed_at_once() -> None:
    rig = posted()
    token = probe_of(rig, RTO)
    rig.receive(Opcode.NEED, PARENT, **place(0), token=token)
    assert asked(rig, 0) == [1, 2, 3]


def test_answers_put_off_the_time_out_of_those_that_wait() -> None:
    """No position overtakes the highest ones; while others are answered they need no question."""
    rig = posted()
    for position in range(3):
        assert asked(rig, RTO - 1) == []
        result(rig, position)
    assert asked(rig, RTO - 1) == []
    assert asked(rig, 1) == [3]


def test_wait_for_an_overtaken_position_proves_no_loss() -> None:
    """Others bring their headers of a ONE position when they reach it; its data may be here before."""
    rig = posted(contributors=ContributorClass.ONE)
    overtaken_and_lost(rig, Opcode.WAIT)
    assert rig.job["lost_at"] == 0


def test_silence_is_taken_for_lateness_until_a_loss_is_proved_and_long_afterwards() -> None:
    rig = posted()
    token = probe_of(rig, RTO)
    rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(0), token=token, node_bitmap=0b10)
    for position in range(3):
        result(rig, position)
    measured = int(rig.job["rto"])
    assert measured < RTO
    assert asked(rig, measured) == []
    rig.job["lost_at"] = rig.now
    assert asked(rig, 0) == [3]
    rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(3), node_bitmap=0b10)
    rig.now += Timing().detection
    result(rig, 3)
    rig.post(np.zeros(SEGMENT, "<f4"))
    assert asked(rig, measured) == []
    assert asked(rig, RTO - measured) == [4]


def test_waiting_position_is_not_overtaken_by_earlier_packets() -> None:
    rig = posted()
    overtaken_and_lost(rig, Opcode.WAIT)
    result(rig, 2)
    assert rig.slot(0)["out_of_order"] == 0


def test_part_of_the_window_of_a_lossy_tree_is_kept_free() -> None:
    rig = NicRig()
    rig.post(np.zeros(3 * WINDOW * SEGMENT, "<f4"))
    overtaken_and_lost(rig, Opcode.RESULT)
    started = [rig.slot(position)["position"] == position for position in range(4, 6)]
    assert started == [True, False]  # positions 2 to 4 are in flight
    result(rig, 2)
    assert rig.slot(5)["position"] == 5
    assert rig.slot(5)["state"] != SlotState.DONE


@pytest.mark.parametrize(("lost", "length"), [(False, WINDOW), (True, WINDOW * 3 // 4)])
def test_reading_of_process_memory_keeps_that_part_free_too(lost: bool, length: int) -> None:
    rig, source = NicRig(), np.zeros(3 * WINDOW * SEGMENT, "<f4")
    rig.device.register_process(0)
    rig.device.allow(source)
    rig.job["lost_at"] = rig.now if lost else 0
    rig.post(source, source_lkey=LKEY_PROCESS)
    assert [read.action["count"] for read in rig.device.reads] == [length]


# Ring: this is node 0 of 3; segments 2 and 5 of a message start here


def starting() -> tuple[NicRig, list]:
    """A node that has sent the partials of two positions, a millisecond apart."""
    rig, sent = NicRig(Route.RING), []
    for sid in (2, 5):
        sent += rig.post(np.ones(6 * SEGMENT, "<f4"), sid=sid, segments=1)
        rig.now += MILLISECOND
    assert opcodes(sent) == [Opcode.CONTRIBUTION] * 2
    return rig, sent


def test_one_probe_of_a_ring_asks_for_all_that_its_answer_tells() -> None:
    rig, sent = starting()
    for position in (0, 1):
        rig.slot(position)["out_of_order"], rig.slot(position)["deadline"] = 1, 0
    assert asked(rig, 0) == [0]
    (probe,) = [packet for packet in rig.last if packet.opcode == Opcode.PROBE]
    assert acknowledge(rig, 0, 0, 0, token=probe.ceth["token"]) == sent
    assert acknowledge(rig, 0, 0, 0, token=probe.ceth["token"]) == []
    assert rig.count("resent") == 2


def test_ring_sends_nothing_again_that_was_not_asked_for() -> None:
    rig, sent = starting()
    rig.slot(0)["out_of_order"], rig.slot(0)["deadline"] = 1, 0
    (token,) = [packet.ceth["token"] for packet in rig.tick(0) if packet.opcode == Opcode.PROBE]
    assert acknowledge(rig, 0, 0, 0, token=token) == sent[:1]


def test_ring_positions_before_an_acknowledgement_map_are_missing() -> None:
    rig, _ = starting()
    acknowledge(rig, 1, 1, 0)
    assert rig.slot(0)["out_of_order"] == OutOfOrder.BY_ALL
