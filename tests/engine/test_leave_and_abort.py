"""A job ends by leaving, or by an abort with a reason that all members learn. Nothing remains."""

import pytest

from fanin_nic.engine.records.tables import JobState
from fanin_wire.abi import Route, Status
from fanin_wire.fields import Opcode
from tests.engine.rig import NEXT, PARENT, PREVIOUS, SECOND, NicRig, SwitchRig, child_address, f32, place

ANY_UPWARD = [Opcode.CONTRIBUTION, Opcode.PROBE, Opcode.KEEPALIVE, Opcode.RESULT, Opcode.ACK]


def leave(rig: SwitchRig, bit: int, **ceth) -> list:
    return rig.receive(Opcode.LEAVE, child_address(bit), source=bit, **ceth)


def is_empty(rig: SwitchRig | NicRig) -> bool:
    """No job, no slot in use, no queue with a job."""
    tables = rig.engine.tables
    jobs = (tables["jobs"]["state"][:-1] == JobState.FREE).all()
    return bool(jobs and rig.engine.header["slots_used"] == 0 and (tables["queues"]["job"] == 0).all())


def test_all_leave_and_all_is_freed() -> None:
    rig = SwitchRig()
    rig.contribute(0, 0, f32(1))
    rig.contribute(1, 0, f32(1))
    assert rig.engine.header["slots_used"] == 1
    for bit in (1, 0):
        assert not is_empty(rig)
        (answer,) = leave(rig, bit)
        assert (answer.opcode, answer.destination, answer.ceth["source"]) == (Opcode.LEAVE_ACK, child_address(bit), bit)
    assert is_empty(rig)


def test_repeated_leave_is_acknowledged_each_time() -> None:
    rig = SwitchRig()
    for _ in range(3):
        assert [packet.opcode for packet in leave(rig, 0)] == [Opcode.LEAVE_ACK]
    assert not is_empty(rig)
    leave(rig, 1)
    assert [packet.opcode for packet in leave(rig, 1)] == [Opcode.LEAVE_ACK]


def test_leave_of_a_child_that_has_not_joined_is_acknowledged() -> None:
    """A late CONFIG of one child makes a switch form a finished job again; the others must still be able to leave."""
    rig = SwitchRig(join=False)
    rig.join(0)
    assert [packet.opcode for packet in leave(rig, 1)] == [Opcode.LEAVE_ACK]
    assert rig.job["state"] == JobState.JOINING


def test_record_of_a_silent_job_ages_out() -> None:
    rig = SwitchRig(join=False)
    rig.join(0)
    rig.tick(6 * SECOND)  # the joined one is lost; later ones hear it for a while
    rig.tick(60 * SECOND)
    assert not is_empty(rig)
    rig.tick(1)
    assert is_empty(rig)
    assert rig.count("jobs_aged") == 1


@pytest.mark.parametrize("opcode", ANY_UPWARD)
def test_tombstone_answers_with_the_reason(opcode: Opcode) -> None:
    rig = SwitchRig()
    leave(rig, 1, status=Status.PEER_LOST)
    (answer,) = rig.receive(opcode, child_address(0), **place(0), source=0)
    assert (answer.opcode, answer.ceth["status"], answer.ceth["node_bitmap"]) == (Opcode.ABORT, Status.PEER_LOST, 0b10)


@pytest.mark.parametrize("opcode", [Opcode.RESULT, Opcode.KEEPALIVE])
def test_tombstone_of_a_nic_names_itself_to_the_device_above(opcode: Opcode) -> None:
    """Its ranks mean nothing there: their bits would count as those of other nodes."""
    rig = NicRig(ranks=2)
    rig.engine.lose(1, rig.now)
    rig.settle()
    (answer,) = rig.receive(opcode, PARENT, **place(0), source=0)
    assert (answer.opcode, answer.destination) == (Opcode.ABORT, PARENT)
    assert (answer.ceth["seg"], answer.ceth["node_bitmap"], answer.ceth["source"]) == (0, 0b1, 0)


def test_ended_ring_tells_the_previous_node_why_until_that_has_left() -> None:
    """Its ABORT may be lost, and an empty device would count as restarted."""
    rig = NicRig(route=Route.RING, ranks=1)
    rig.receive(Opcode.ABORT, NEXT, status=Status.PEER_LOST, source=1, seg=1, node_bitmap=0b10)
    rig.engine.leave(0, 9, rig.now)
    rig.receive(Opcode.LEAVE_ACK, NEXT, source=0)
    assert rig.engine.header["slots_used"] == 0
    previous = int(rig.job["node_mask"]).bit_length() - 1
    (answer,) = rig.receive(Opcode.KEEPALIVE, PREVIOUS, source=previous)
    assert (answer.opcode, answer.destination, answer.ceth["node_bitmap"]) == (Opcode.ABORT, PREVIOUS, 0b10)
    rig.receive(Opcode.LEAVE, PREVIOUS, source=previous, status=Status.PEER_LOST, node_bitmap=0b10)
    assert is_empty(rig)


@pytest.mark.parametrize(("status", "answers"), [(Status.TIMEOUT, True), (Status.PEER_LOST, False)])
def test_ended_ring_waits_for_a_previous_node_that_is_late_but_not_for_a_lost_one(
    status: Status, answers: bool
) -> None:
    rig = NicRig(route=Route.RING, ranks=1)
    previous = int(rig.job["node_mask"])
    rig.receive(Opcode.ABORT, NEXT, status=status, source=1, seg=1, node_bitmap=previous)
    rig.engine.leave(0, 9, rig.now)
    rig.receive(Opcode.LEAVE_ACK, NEXT, source=0)
    assert is_empty(rig) == (not answers)


@pytest.mark.parametrize("opcode", ANY_UPWARD)
def test_switch_that_was_restarted_does_not_answer_for_a_job_that_it_only_heard_of(opcode: Opcode) -> None:
    """A NIC leaves it after the restart with a reason. The next sender may be the device above, to which the NIC's bits
    mean others: it gets the answer of an empty device."""
    rig = SwitchRig(join=False)
    leave(rig, 0, status=Status.PEER_LOST, node_bitmap=0b11)
    answers = rig.receive(opcode, PARENT, **place(0), source=1)
    asks = opcode not in (Opcode.RESULT, Opcode.ACK)
    assert [(packet.opcode, packet.destination, packet.ceth["source"]) for packet in answers] == (
        [(Opcode.NAK, PARENT, 1)] if asks else []
    )


def test_time_out_that_names_this_node_names_its_missing_rank() -> None:
    """The others can name only the node, which knows its missing rank."""
    rig = NicRig(ranks=2)
    rig.post(f32(1), rank=0)
    rig.receive(Opcode.ABORT, PARENT, status=Status.TIMEOUT, seg=1, node_bitmap=0b01)
    assert rig.statuses() == [Status.TIMEOUT]
    assert (rig.device.completions[0]["missing_kind"], rig.device.completions[0]["missing"]) == (0, 0b10)


def test_time_out_that_names_another_node_stays_as_it_is() -> None:
    rig = NicRig(ranks=2)
    rig.post(f32(1), rank=0)
    rig.receive(Opcode.ABORT, PARENT, status=Status.TIMEOUT, seg=1, node_bitmap=0b10)
    assert (rig.device.completions[0]["missing_kind"], rig.device.completions[0]["missing"]) == (1, 0b10)


def test_time_out_that_names_a_node_all_of_whose_ranks_are_here_stays_as_it_is() -> None:
    rig = NicRig(ranks=2)
    for rank in range(2):
        rig.post(f32(1), rank=rank)
    rig.receive(Opcode.ABORT, PARENT, status=Status.TIMEOUT, seg=1, node_bitmap=0b01)
    assert {(int(c["missing_kind"]), int(c["missing"])) for c in rig.device.completions} == {(1, 0b01)}


def test_time_out_of_a_ring_names_the_missing_rank_to_those_of_its_node() -> None:
    rig = NicRig(Route.RING, ranks=2)
    rig.post(f32(1), rank=1)
    sent = rig.receive(Opcode.ABORT, PREVIOUS, source=2, status=Status.TIMEOUT, seg=1, node_bitmap=0b101)
    assert (rig.device.completions[0]["missing_kind"], rig.device.completions[0]["missing"]) == (0, 0b01)
    (onward,) = [packet for packet in sent if packet.opcode == Opcode.ABORT and packet.destination == NEXT]
    assert (onward.ceth["seg"], onward.ceth["node_bitmap"]) == (1, 0b001)  # to the others the node is its ranks


def test_time_out_that_names_this_switch_names_its_missing_child() -> None:
    rig = SwitchRig(above=((PARENT, 1, 0b11),))
    rig.contribute(0, 0, f32(1))
    sent = rig.receive(Opcode.ABORT, PARENT, status=Status.TIMEOUT, seg=1, node_bitmap=0b10)
    told = {packet.destination: packet.ceth for packet in sent if packet.opcode == Opcode.ABORT}
    assert told.keys() == {child_address(0), child_address(1)}
    assert {(ceth["seg"], ceth["node_bitmap"]) for ceth in told.values()} == {(1, 0b10)}


def test_join_that_times_out_elsewhere_names_the_rank_that_has_not_come() -> None:
    rig = NicRig(ranks=2, join=False)
    rig.join(0)
    rig.receive(Opcode.ABORT, PARENT, status=Status.TIMEOUT, seg=1, node_bitmap=0b01)
    notice = rig.answer()[1]
    assert (notice["status"], notice["missing_kind"], notice["missing"]) == (Status.TIMEOUT, 0, 0b10)


def test_request_posted_right_after_the_end_ends_behind_those_before_it() -> None:
    rig = NicRig(ranks=2)
    rig.post(f32(1), wr_id=60)
    rig.engine.lose(1, rig.now)
    rig.engine.post(0, rig.request(f32(1), f32(0), wr_id=61), rig.now)
    rig.settle()
    assert [(int(c["wr_id"]), c["status"]) for c in rig.device.completions] == [
        (60, Status.PEER_LOST),
        (61, Status.PEER_LOST),
    ]
