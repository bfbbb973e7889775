"""Short data of one rank go ahead of the result (SPEC.md, section 7.5)."""

import numpy as np
import pytest

from fanin_nic.engine.engine import Timing
from fanin_nic.engine.records.tables import JobState, SlotState
from fanin_sim.fabric.device import Arrival
from fanin_wire.abi import DType, Op, Route, Status
from fanin_wire.fields import WAIT_BODY, Flag, Opcode
from tests.engine.rig import (
    ALL,
    CHUNK,
    MILLISECOND,
    NEXT,
    ONE,
    PARENT,
    SLOTS,
    NicRig,
    Sent,
    SwitchRig,
    child_address,
    f32,
    ip,
    pack,
    place,
)
from tests.engine.test_delivery_ahead import BRINGS, NOTHING, WANTS, ended
from tests.engine.test_ring_below_switch import LastNode

REORDER = Timing().reorder
GROUP = "239.0.0.1"
WINDOW = SLOTS // 2
DATA_AHEAD = Flag.HAS_DATA | Flag.AHEAD
NINE = f32(9)
BYTES = {"op": Op.NONE, "dtype": DType.U8}
ABOVE = ((PARENT, 5, 0xFF),)


def data_ahead(rig, position: int, data: np.ndarray = NINE, source: int = PARENT, **changes) -> list[Sent]:
    values = {**place(position), **BYTES, "sid": 0, "flags": ONE | DATA_AHEAD, "node_bitmap": 0xFF}
    return rig.receive(Opcode.RESULT, source, data.tobytes(), **(values | changes))


def result(rig, position: int, data: bytes = b"", **changes) -> list[Sent]:
    values = {**place(position), **BYTES, "sid": 0, "flags": ONE | (Flag.HAS_DATA if data else 0), "node_bitmap": 0xFF}
    return rig.receive(Opcode.RESULT, PARENT, data, **(values | changes))


def bring(rig: SwitchRig, bit: int, position: int = 0, flags: int = Flag.AHEAD, **changes) -> list[Sent]:
    """A child brings the data of a position."""
    values = {**BYTES, "sid": 0, "flags": ONE | Flag.HAS_DATA | flags}
    return rig.contribute(bit, position, NINE, **(values | changes))


def want(rig: SwitchRig, bit: int, position: int = 0, flags: int = Flag.WANTS_RESULT, **changes) -> list[Sent]:
    """A child brings no data; it wants them unless `flags` say otherwise."""
    return rig.contribute(bit, position, **({**BYTES, "sid": 0, "flags": ONE | flags} | changes))


def opcodes(sent: list[Sent]) -> list[Opcode]:
    return [packet.opcode for packet in sent]


def down(sent: list[Sent]) -> dict[int, tuple[bool, bytes]]:
    """Receivers of RESULTs: whether they are AHEAD, and their data."""
    results = [packet for packet in sent if packet.opcode == Opcode.RESULT]
    return {packet.destination: (bool(packet.ceth["flags"] & Flag.AHEAD), packet.payload) for packet in results}


# The NIC whose rank brings the data


def contribution_of(rig: NicRig, data: np.ndarray, **changes) -> Sent:
    """The CONTRIBUTION with the first segment of a message."""
    return next(packet for packet in rig.post(data, **changes) if packet.opcode == Opcode.CONTRIBUTION)


def test_message_of_one_segment_is_to_go_ahead() -> None:
    rig = NicRig()
    assert contribution_of(rig, NINE, **BRINGS).ceth["flags"] & DATA_AHEAD == DATA_AHEAD
    assert rig.slot(0)["zero_copy_address"] == 0


def test_lost_contribution_is_sent_again_as_it_was() -> None:
    rig = NicRig()
    first = contribution_of(rig, NINE, **BRINGS)
    (again,) = rig.from_parent(Opcode.NEED, 0)
    assert (again.ceth, again.payload) == (first.ceth, first.payload)


# The device that has them


def test_data_that_come_last_are_in_the_result() -> None:
    rig = SwitchRig(2)
    want(rig, 0)
    assert down(bring(rig, 1)) == {child_address(0): (False, NINE.tobytes()), child_address(1): (False, b"")}


@pytest.mark.parametrize(
    "changes", [{"flags": ONE | Flag.HAS_DATA}, {"flags": ALL | DATA_AHEAD, "op": Op.SUM, "dtype": DType.F32}]
)
def test_others_do_not_go_ahead(changes: dict) -> None:
    assert bring(SwitchRig(3), 0, **changes) == []


def test_slot_forgets_what_went_ahead() -> None:
    rig = SwitchRig(2)
    bring(rig, 0)
    want(rig, 1)
    want(rig, 0, SLOTS)
    assert down(bring(rig, 1, SLOTS))[child_address(0)] == (False, NINE.tobytes())


def listening(children: int = 3) -> SwitchRig:
    """A switch with a group that all children hear at position 0, a barrier."""
    rig = SwitchRig(children)
    rig.engine.header["group"] = ip(GROUP)
    for bit in range(children):
        rig.contribute(bit, 0, flags=Flag.HEARS_GROUP)
    return rig


def contributed_to_a_sum(rig: SwitchRig, hears: int) -> SwitchRig:
    """All children contribute to positions 1 to 3, by the short path in the end; those of a bitmap hear the group."""
    for position in (1, 2, 3):
        for bit in range(rig.children):
            flags = ALL | Flag.HAS_DATA | Flag.WANTS_RESULT | (Flag.HEARS_GROUP if hears >> bit & 1 else 0)
            rig.contribute(bit, position, f32(1), flags=flags)
    return rig


@pytest.mark.parametrize(("hears", "packets"), [(0b111, {ip(GROUP)}), (0b101, {child_address(1), child_address(2)})])
def test_group_serves_those_who_last_heard_it(hears: int, packets: set) -> None:
    rig = contributed_to_a_sum(listening(), hears)
    sent = bring(rig, 0, 4)
    assert set(down(sent)) == packets
    assert sent[0].ceth["node_bitmap"] == (0b110 if len(packets) == 1 else 0b010)


def test_one_receiver_needs_no_group() -> None:
    rig = listening(2)
    assert set(down(bring(rig, 0, 1, flags=Flag.AHEAD | Flag.HEARS_GROUP))) == {child_address(1)}


def test_who_has_lost_the_data_gets_them_with_the_result_at_once() -> None:
    rig = SwitchRig(3)
    want(rig, 0)
    bring(rig, 1)
    want(rig, 2, flags=0)
    (answer,) = rig.probe(0, 0)
    assert (answer.opcode, answer.payload, answer.ceth["flags"] & Flag.AHEAD) == (Opcode.RESULT, NINE.tobytes(), 0)
    (answer,) = rig.probe(2, 0)
    assert (answer.opcode, answer.payload) == (Opcode.RESULT, b"")


def test_status_that_comes_after_the_data_is_its_owners_alone() -> None:
    rig = SwitchRig(3)
    bring(rig, 0)
    want(rig, 1, status=Status.LOCAL_PROTECTION_ERROR)
    sent = want(rig, 2, flags=0)
    assert {packet.ceth["status"] for packet in sent} == {Status.SUCCESS}


# A device in between


def test_data_that_come_last_go_up_and_to_those_that_wait() -> None:
    rig = SwitchRig(3, above=ABOVE)
    want(rig, 0)
    want(rig, 1, flags=0)
    up, *ahead = bring(rig, 2)
    assert (up.opcode, up.ceth["flags"] & DATA_AHEAD) == (Opcode.CONTRIBUTION, DATA_AHEAD)
    assert down(ahead) == {child_address(0): (True, NINE.tobytes())}
    assert down(result(rig, 0)) == {child_address(bit): (False, b"") for bit in range(3)}


def test_data_from_above_go_down_and_not_up_again() -> None:
    rig = SwitchRig(2, above=ABOVE)
    want(rig, 0)
    assert down(data_ahead(rig, 0)) == {child_address(bit): (True, NINE.tobytes()) for bit in range(2)}
    (up,) = want(rig, 1, flags=0)
    assert (up.opcode, up.payload) == (Opcode.CONTRIBUTION, b"")
    assert up.ceth["flags"] & (DATA_AHEAD | Flag.WANTS_RESULT) == 0
    assert down(result(rig, 0)) == {child_address(bit): (False, b"") for bit in range(2)}
    (answer,) = rig.probe(0, 0)
    assert answer.payload == NINE.tobytes()


def test_data_may_come_when_all_below_have_contributed() -> None:
    rig = SwitchRig(2, above=ABOVE)
    want(rig, 0)
    (up,) = want(rig, 1, flags=0)
    assert up.ceth["flags"] & Flag.WANTS_RESULT
    assert down(data_ahead(rig, 0)) == {child_address(0): (True, NINE.tobytes())}
    assert rig.slot(0)["state"] == SlotState.LOCAL
    assert down(result(rig, 0)) == {child_address(bit): (False, b"") for bit in range(2)}


def lacking() -> SwitchRig:
    """A device in between that has a RESULT without its data."""
    rig = SwitchRig(2, above=ABOVE)
    want(rig, 0)
    want(rig, 1, flags=0)
    (probe,) = result(rig, 0)
    assert (probe.opcode, probe.destination) == (Opcode.PROBE, PARENT)
    return rig


WITH_DATA = {child_address(0): (False, NINE.tobytes()), child_address(1): (False, b"")}


def test_result_without_its_data_is_not_passed_on_and_the_data_are_asked_for() -> None:
    rig = lacking()
    assert rig.slot(0)["state"] == SlotState.LOCAL
    assert opcodes(rig.probe(0, 0)) == [Opcode.PROBE, Opcode.WAIT]
    assert down(result(rig, 0, NINE.tobytes(), token=1)) == WITH_DATA


def test_data_that_are_late_complete_it() -> None:
    rig = lacking()
    assert down(data_ahead(rig, 0)) == WITH_DATA
    assert result(rig, 0, NINE.tobytes(), token=1) == []


def test_answer_without_data_is_not_asked_for_again() -> None:
    assert result(lacking(), 0, token=1) == []


def test_status_of_a_child_before_the_data_from_above() -> None:
    """The device above decides: it has sent them ahead of the status, or has received the status first."""
    for status in (Status.SUCCESS, Status.LOCAL_PROTECTION_ERROR):
        rig = SwitchRig(2, above=ABOVE)
        want(rig, 0, status=Status.LOCAL_PROTECTION_ERROR)
        assert data_ahead(rig, 0) == []
        (up,) = want(rig, 1)
        assert (up.ceth["status"], up.payload) == (Status.LOCAL_PROTECTION_ERROR, b"")
        data = b"" if status else NINE.tobytes()
        sent = result(rig, 0, status=status)
        assert down(sent) == {child_address(bit): (False, data) for bit in range(2)}
        assert {packet.ceth["status"] for packet in sent} == {status}


def test_contribution_of_a_status_without_the_data_says_nothing_of_them() -> None:
    rig = SwitchRig(3, above=ABOVE)
    want(rig, 1, status=Status.LOCAL_PROTECTION_ERROR)
    (up,) = bring(rig, 0)
    assert (up.ceth["status"], up.payload) == (Status.LOCAL_PROTECTION_ERROR, b"")
    assert up.ceth["flags"] & DATA_AHEAD == 0


def test_data_for_a_position_whose_child_has_left_end_the_job() -> None:
    rig = SwitchRig(2, above=ABOVE)
    rig.receive(Opcode.LEAVE, child_address(1), source=1)
    assert Opcode.ABORT in opcodes(data_ahead(rig, 0))
    assert rig.job["status"] == Status.ABORTED


def data_of_a_lap_later(first: int, *contributed: int) -> SwitchRig:
    """Data of position N come ahead to a device in between, after child 0's data of W and those of the children
    `contributed`. It has the results of 0 to W - 1. first: the position that counts as 0."""
    rig = SwitchRig(2, above=ABOVE, first=first)
    places = [(first + offset) % 2**32 for offset in (*range(WINDOW), WINDOW, SLOTS)]
    for position in places[:WINDOW]:
        want(rig, 0, position)
        want(rig, 1, position)
        result(rig, position, NINE.tobytes())
    assert opcodes(bring(rig, 0, places[-2]))[0] == Opcode.CONTRIBUTION
    for bit in contributed:
        want(rig, bit, places[-2])
    result(rig, places[-2])
    data_ahead(rig, places[-1])
    return rig


@pytest.mark.parametrize("first", [0, 2**32 - WINDOW, 2**32 - SLOTS])
def test_data_replace_a_result_that_all_below_hold_and_no_other(first: int) -> None:
    """Child 0 has brought the data of W, so the device above has its result, and others send N. Child 1 may still lack
    the result of 0."""
    rig = data_of_a_lap_later(first)
    assert (rig.count("drop_slot"), rig.slot(first % SLOTS)["position"]) == (1, first)
    rig.tick(REORDER)
    (answer,) = rig.probe(1, first)
    assert (answer.opcode, answer.payload) == (Opcode.RESULT, NINE.tobytes())
    rig = data_of_a_lap_later(first, 1)
    assert (rig.count("drop_slot"), rig.slot(first % SLOTS)["position"]) == (0, (first + SLOTS) % 2**32)


# The NIC of a rank that wants them


def test_data_count_as_no_result_for_the_window() -> None:
    rig = NicRig()
    for number in range(4):
        rig.post(NINE, mid=number, **WANTS)
        data_ahead(rig, number, mid=number)
    assert rig.post(NINE, mid=4, **WANTS) == []
    result(rig, 0, mid=0)
    assert rig.slot(4)["state"] == SlotState.LOCAL


def test_data_arrive_at_a_rank_that_has_not_asked_and_it_says_so_when_it_does() -> None:
    rig, memory = NicRig(), f32(0)
    assert data_ahead(rig, 0) == []
    assert rig.device.arrivals == [Arrival(0, 3, NINE.tobytes())]
    (header,) = rig.post(NINE, memory, **WANTS)
    assert (memory, rig.statuses()) == (9, [Status.SUCCESS])
    assert (header.opcode, header.payload) == (Opcode.CONTRIBUTION, b"")
    assert header.ceth["flags"] & (DATA_AHEAD | Flag.WANTS_RESULT) == 0
    result(rig, 0)
    assert rig.slot(0)["state"] == SlotState.DONE


def test_ranks_of_a_node_get_them_each_in_its_way() -> None:
    rig, memory = NicRig(ranks=3), f32(0)
    rig.post(NINE, memory, rank=1, **WANTS)
    rig.post(NINE, rank=2, deadline_ms=1000, **WANTS)
    data_ahead(rig, 0)
    assert (ended(rig), memory) == ({1: Status.SUCCESS}, 9)
    assert [arrival.queue for arrival in rig.device.arrivals] == [0]
    (header,) = rig.post(NINE, rank=0, **NOTHING)
    assert header.ceth["flags"] & Flag.WANTS_RESULT == 0
    result(rig, 0)
    assert ended(rig) == dict.fromkeys(range(3), Status.SUCCESS)


def lacks(**changes) -> tuple[NicRig, np.ndarray]:
    """A NIC with the RESULT but without the data, and the memory of its rank."""
    rig, memory = NicRig(**changes), f32(0)
    rig.post(NINE, memory, **WANTS)
    result(rig, 0)
    assert (rig.statuses(), rig.slot(0)["state"]) == ([], SlotState.LOCAL)
    return rig, memory


def test_lost_data_are_asked_for_after_the_reorder_time() -> None:
    rig, memory = lacks()
    assert rig.tick(REORDER - 1) == []
    (probe,) = rig.tick(1)
    assert probe.opcode == Opcode.PROBE
    result(rig, 0, NINE.tobytes(), token=probe.ceth["token"])
    assert (rig.statuses(), memory, rig.slot(0)["state"]) == ([Status.SUCCESS], 9, SlotState.DONE)
    assert rig.job["lost_at"] == rig.now


def test_result_without_its_data_clears_the_missing_members() -> None:
    rig = NicRig()
    rig.post(NINE, **WANTS)
    rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(0), node_bitmap=0b1000)
    assert rig.job["missing"] == 0b1000
    result(rig, 0)
    assert rig.job["missing"] == 0


def test_data_that_are_late_after_a_probe_teach_patience() -> None:
    rig, _ = lacks()
    rig.job["reorder"] = MILLISECOND
    result(rig, 0)  # a copy: it is due sooner now
    assert opcodes(rig.tick(REORDER)) == [Opcode.PROBE]
    data_ahead(rig, 0)
    assert rig.job["reorder"] == 2 * MILLISECOND


def test_repeated_question_is_answered_by_wait_and_asked_again() -> None:
    rig, _ = lacks()
    (probe,) = rig.tick(REORDER)
    rig.receive(Opcode.WAIT, PARENT, pack(WAIT_BODY), **place(0), token=probe.ceth["token"])
    assert Opcode.PROBE in opcodes(rig.tick(50 * REORDER))


def test_rank_that_wants_nothing_lacks_nothing() -> None:
    rig = NicRig()
    rig.post(NINE, **NOTHING)
    result(rig, 0)
    assert (rig.statuses(), rig.slot(0)["state"]) == ([Status.SUCCESS], SlotState.DONE)


def test_result_with_a_status_ends_the_position_without_data() -> None:
    rig = NicRig()
    rig.post(NINE, **WANTS)
    result(rig, 0, status=Status.LOCAL_PROTECTION_ERROR)
    assert rig.statuses() == [Status.LOCAL_PROTECTION_ERROR]


def test_rank_that_can_not_be_read_fails_alone() -> None:
    rig, memory = NicRig(ranks=2), f32(0)
    data_ahead(rig, 0)
    rig.post(NINE, rank=0, destination_lkey=99, **WANTS)
    (header,) = rig.post(NINE, memory, rank=1, **WANTS)
    assert (header.ceth["status"], memory) == (Status.SUCCESS, 9)
    result(rig, 0)
    assert ended(rig) == {0: Status.LOCAL_PROTECTION_ERROR, 1: Status.SUCCESS}


def test_data_behind_a_status_of_the_same_node_wait_for_the_result() -> None:
    rig, memory = NicRig(ranks=2), f32(0)
    rig.post(NINE, rank=0, destination_lkey=99, **WANTS)
    data_ahead(rig, 0)
    assert rig.device.arrivals == []
    (header,) = rig.post(NINE, memory, rank=1, **WANTS)
    assert header.ceth["status"] == Status.LOCAL_PROTECTION_ERROR
    assert ended(rig) == {}
    result(rig, 0)
    assert (ended(rig), memory) == ({0: Status.LOCAL_PROTECTION_ERROR, 1: Status.SUCCESS}, 9)


@pytest.mark.parametrize(
    ("position", "changes", "counter"),
    [
        (SLOTS, {}, "drop_slot"),
        (-SLOTS, {}, "drop_stale"),
        (0, {"flags": ONE | Flag.AHEAD}, "drop_unexpected"),
        (0, {"flags": ALL | DATA_AHEAD}, "drop_unexpected"),
        (0, {"status": Status.ABORTED}, "drop_unexpected"),
        (0, {"sid": 1}, "drop_unexpected"),
        (0, {"mid": 4}, "drop_unexpected"),
        (0, {"node_bitmap": 0b10}, "drop_not_addressed"),
    ],
)
def test_what_is_not_taken(position: int, changes: dict, counter: str) -> None:
    rig, memory = NicRig(first=0), f32(0)
    rig.post(NINE, memory, **WANTS)
    data_ahead(rig, position % 2**32, **changes)
    assert (memory, rig.statuses(), rig.count(counter)) == (0, [], 1)


def test_second_copy_is_a_duplicate_before_and_after_the_result() -> None:
    rig = NicRig()
    rig.post(NINE, **WANTS)
    data_ahead(rig, 0)
    data_ahead(rig, 0)
    result(rig, 0)
    data_ahead(rig, 0)
    assert (rig.count("drop_duplicate"), len(rig.statuses())) == (2, 1)
    assert rig.device.arrivals == []


def test_slot_is_free_when_its_position_is_done() -> None:
    rig = NicRig()
    rig.post(NINE, **WANTS)
    data_ahead(rig, SLOTS)
    assert rig.count("drop_slot") == 1
    data_ahead(rig, 0)
    result(rig, 0)
    rig.settle()
    data_ahead(rig, SLOTS)
    assert [arrival.mid for arrival in rig.device.arrivals] == [3]
    assert rig.slot(0)["position"] == SLOTS


def test_slot_is_not_free_before_the_base_has_passed_it() -> None:
    rig = NicRig()
    for number in (0, 1):
        rig.post(NINE, mid=number, **WANTS)
    result(rig, 1, NINE.tobytes(), mid=1)
    data_ahead(rig, SLOTS + 1)
    assert (rig.count("drop_slot"), rig.slot(1)["position"]) == (1, 1)
    result(rig, 0, NINE.tobytes(), mid=0)
    rig.settle()
    data_ahead(rig, SLOTS + 1)
    assert rig.slot(1)["position"] == SLOTS + 1


def test_data_for_a_job_that_is_forming_are_dropped() -> None:
    rig = NicRig(join=False)
    rig.join(0)
    data_ahead(rig, 0)
    assert (rig.device.arrivals, rig.count("drop_unexpected")) == ([], 1)


@pytest.mark.parametrize("segments", [1, 2])
def test_rank_that_brings_data_too_is_a_mismatch(segments: int) -> None:
    rig = NicRig()
    data_ahead(rig, 0)
    rig.post(np.zeros(segments * CHUNK // 4, "<f4"), **BRINGS)
    assert rig.statuses() == [Status.OP_MISMATCH]


def test_rank_that_wants_another_message_is_a_mismatch() -> None:
    for changes in ({"mid": 4}, {"length": 8, "block": 8}):
        rig = NicRig()
        data_ahead(rig, 0)
        rig.post(f32(1, 2), **(WANTS | changes))
        assert rig.statuses() == [Status.OP_MISMATCH]


def test_leave_waits_for_the_result() -> None:
    rig = NicRig()
    rig.post(NINE, **WANTS)
    data_ahead(rig, 0)
    rig.engine.leave(0, 77, rig.now)
    assert rig.settle() == []
    assert (rig.answer()[0], rig.job["state"]) == (Status.SUCCESS, JobState.ACTIVE)
    assert opcodes(result(rig, 0)) == [Opcode.LEAVE]


def test_leave_does_not_wait_for_a_position_that_nobody_here_will_take_part_in() -> None:
    rig = NicRig()
    data_ahead(rig, 0)
    rig.engine.leave(0, 77, rig.now)
    assert Opcode.LEAVE in opcodes(rig.settle())
    assert rig.job["status"] == Status.ABORTED


def test_data_for_a_rank_that_has_left_end_the_job() -> None:
    rig = NicRig(ranks=2)
    rig.engine.leave(0, 77, rig.now)
    data_ahead(rig, 0)
    assert rig.job["status"] == Status.ABORTED


def test_data_ahead_do_not_use_up_the_window_after_a_loss() -> None:
    rig = NicRig()
    rig.job["lost_at"] = rig.now
    for position in (1, 2, 3, 4):
        data_ahead(rig, position, mid=position)
    (header,) = rig.post(NINE, mid=0, **WANTS)
    assert header.ceth["position"] == 0


# A ring below a switch


def test_last_node_of_a_ring_takes_them_and_passes_them_round_with_the_result() -> None:
    rig, memory = LastNode(), f32(0)
    data_ahead(rig, 0)
    assert rig.device.arrivals == [Arrival(0, 3, NINE.tobytes())]
    ceth = {**place(0), **BYTES, "sid": 0, "flags": ONE, "node_bitmap": 0b100, "rank_bitmap": 0b011, "source": 1}
    rig.receive(Opcode.CONTRIBUTION, ip("10.0.2.2"), **ceth)
    up = [packet for packet in rig.post(NINE, memory, **WANTS) if packet.opcode == Opcode.CONTRIBUTION]
    assert [(packet.destination, packet.payload) for packet in up] == [(PARENT, b"")]
    assert up[0].ceth["flags"] & Flag.WANTS_RESULT == 0
    assert memory == 9
    (onward,) = result(rig, 0)
    assert (onward.destination, onward.opcode, onward.payload) == (NEXT, Opcode.RESULT, NINE.tobytes())
    assert onward.ceth["flags"] & Flag.AHEAD == 0


def test_last_node_that_lacks_them_asks() -> None:
    rig = LastNode()
    ceth = {**place(0), **BYTES, "sid": 0, "flags": ONE, "node_bitmap": 0b100, "rank_bitmap": 0b011, "source": 1}
    rig.receive(Opcode.CONTRIBUTION, ip("10.0.2.2"), **ceth)
    rig.post(NINE, **NOTHING)
    assert result(rig, 0) == []
    assert Opcode.PROBE in opcodes(rig.tick(REORDER))


def test_flag_goes_through_the_ring_to_the_switch() -> None:
    rig = LastNode()
    ceth = {**place(0), **BYTES, "sid": 0, "flags": ONE | DATA_AHEAD, "node_bitmap": 0b100, "source": 1}
    rig.receive(Opcode.CONTRIBUTION, ip("10.0.2.2"), NINE.tobytes(), **ceth)
    (up,) = [packet for packet in rig.post(NINE, **WANTS) if packet.opcode == Opcode.CONTRIBUTION]
    assert up.ceth["flags"] & DATA_AHEAD == DATA_AHEAD


def test_nothing_goes_ahead_within_a_ring_or_a_node() -> None:
    assert NicRig(Route.LOCAL, ranks=2).post(NINE, **BRINGS) == []
    rig = NicRig(Route.RING)
    assert all(packet.opcode != Opcode.RESULT for packet in rig.post(NINE, **BRINGS))
