"""How a job is formed: CONFIG goes up like a reduction, the answer comes down, and a refusal says why."""

import pytest

from fanin_nic.engine.records.tables import JobState
from fanin_wire import abi
from fanin_wire.abi import Route, Status
from fanin_wire.fields import CONFIG_ACK_BODY, Opcode
from tests.engine.rig import (
    CHUNK,
    JID,
    KEY,
    MILLISECOND,
    PARENT,
    SECOND,
    SLOTS,
    STRANGER,
    NicRig,
    Sent,
    SwitchRig,
    child_address,
    pack,
    unpack,
)


def granted(packet: Sent) -> tuple[int, int]:
    body = unpack(CONFIG_ACK_BODY, packet.payload)
    return body["slots"], body["window"]


def test_least_offer_wins() -> None:
    rig = SwitchRig(join=False)
    rig.join(0, slots=16, window=8)
    assert {granted(packet) for packet in rig.join(1, slots=8, window=3)} == {(8, 3)}


def test_window_fits_the_receive_buffer() -> None:
    rig = SwitchRig(4, join=False)
    rig.engine.header["receive_segments"] = 8
    for bit in range(4):
        answers = rig.join(bit)
    assert {granted(packet) for packet in answers} == {(SLOTS, 2)}


def test_answer_to_the_life_before_a_restart_is_dropped() -> None:
    """It would let the device into a job that is unknown to its ranks: old results could reach them."""
    rig = NicRig(join=False)
    rig.join(0)
    body = pack(CONFIG_ACK_BODY, slots=SLOTS, window=2)
    before = int(rig.engine.header["boot_id"]) - 1
    assert rig.receive(Opcode.CONFIG_ACK, PARENT, body, token=before) == []
    assert rig.job["state"] == JobState.CONFIGURING
    assert rig.count("drop_unexpected") == 1
    rig.receive(Opcode.CONFIG_ACK, PARENT, body)
    assert rig.job["state"] == JobState.ACTIVE


def test_other_boot_id_is_a_restart() -> None:
    rig = SwitchRig()
    sent = rig.join(0, boot_id=999)
    assert {(p.opcode, p.ceth["status"], p.ceth["node_bitmap"]) for p in sent} == {
        (Opcode.ABORT, Status.PEER_LOST, 0b01)
    }
    assert {packet.destination for packet in sent} == {child_address(0), child_address(1)}


@pytest.mark.parametrize(("bit", "change"), [(0, {}), (1, {"digest_low": 5}), (5, {}), (0, {"boot_id": 9})])
def test_outsider_with_the_key_of_a_running_job_gets_jid_in_use(bit: int, change: dict) -> None:
    """It does not even learn that the key is right."""
    rig = SwitchRig()
    rig.children = 6 if bit == 5 else 2
    before = rig.job.copy()
    (answer,) = rig.join(bit, source=STRANGER, **change)
    assert (answer.opcode, answer.destination) == (Opcode.CONFIG_ACK, STRANGER)
    assert answer.ceth["status"] == Status.JID_IN_USE
    assert rig.count("drop_sender") == 1
    assert rig.job == before


def test_bit_of_another_in_a_job_that_forms() -> None:
    rig = SwitchRig(join=False)
    rig.join(0)
    (answer,) = rig.join(0, source=STRANGER)
    assert answer.ceth["status"] == Status.JID_IN_USE
    assert rig.job["node_joined"] == 1
    assert rig.engine.tables["children"][0]["address"] == child_address(0)


def test_refused_incarnation_never_forms() -> None:
    """Its refused member has gone. An old copy of its CONFIG must not bring it in when the other job has ended."""
    rig = SwitchRig()
    rig.join(0, ceth={"key": KEY + 1})
    for bit in range(2):
        rig.receive(Opcode.LEAVE, child_address(bit), source=bit)
    for bit in range(2):
        (answer,) = rig.join(bit, ceth={"key": KEY + 1})
        assert (answer.opcode, answer.ceth["status"]) == (Opcode.ABORT, Status.JID_IN_USE)
    (answer,) = rig.join(0, ceth={"key": KEY + 2})
    assert (answer.opcode, answer.ceth["status"]) == (Opcode.CONFIG_ACK, Status.PENDING)


def test_refused_incarnation_does_not_replace_a_tombstone() -> None:
    """The tombstone of a job that was never formed gives way to other incarnations."""
    rig = SwitchRig(join=False)
    rig.join(0)
    rig.join(0, ceth={"key": KEY + 1})
    rig.receive(Opcode.LEAVE, child_address(0), source=0, status=Status.ABORTED)
    for key, status in ((KEY + 1, Status.JID_IN_USE), (KEY + 2, Status.PENDING)):
        (answer,) = rig.join(1, ceth={"key": key})
        assert (answer.opcode, answer.ceth["status"]) == (Opcode.CONFIG_ACK, status)


def test_memory_of_a_refused_incarnation_ages() -> None:
    rig = SwitchRig()
    rig.join(0, ceth={"key": KEY + 1})
    for bit in range(2):
        rig.receive(Opcode.LEAVE, child_address(bit), source=bit)
    assert rig.job["state"] == JobState.ABORTED
    rig.tick(60 * SECOND + 1)
    assert rig.job["state"] == JobState.FREE


@pytest.mark.parametrize("change", [{"digest_low": 5}, {"digest_high": 5}, {"chunk": 128}, {"route": Route.RING}])
def test_disagreement_is_told_to_all_members(change: dict) -> None:
    rig = SwitchRig(join=False)
    rig.join(0)
    sent = rig.join(1, **change)
    assert {(p.opcode, p.ceth["status"]) for p in sent} == {(Opcode.ABORT, Status.MEMBERS_MISMATCH)}
    assert {packet.destination for packet in sent} == {child_address(0), child_address(1)}


def test_no_resources_names_the_size_that_would_fit() -> None:
    rig = SwitchRig(join=False)
    for jid, slots in ((1, 16), (2, 8)):
        rig.join(0, ceth={"jid": jid}, slots=slots)
    assert [p.ceth["status"] for p in rig.join(0, ceth={"jid": 3}, slots=16)] == [Status.PENDING]
    rig = SwitchRig(join=False)
    rig.engine.header["min_lease"] = 16
    rig.join(0, ceth={"jid": 1}, slots=16)
    rig.join(0, ceth={"jid": 2}, slots=16)
    (answer,) = rig.join(0, ceth={"jid": 3}, slots=16)
    assert answer.ceth["status"] == Status.NO_RESOURCES
    assert granted(answer)[0] == 0
    assert (rig.engine.tables["jobs"]["state"][:-1] != JobState.FREE).sum() == 2


def test_no_job_record_left() -> None:
    rig = SwitchRig(join=False)
    for jid in range(1, 4):
        rig.join(0, ceth={"jid": jid}, slots=4)
    assert [p.ceth["status"] for p in rig.join(0, ceth={"jid": 4}, slots=4)] == [Status.NO_RESOURCES]


def test_nic_repeats_config_until_it_is_answered() -> None:
    rig = NicRig(join=False)
    rig.join(0)
    assert rig.job["state"] == JobState.CONFIGURING
    for silent in (1, 3, 7):
        assert rig.tick(silent * MILLISECOND) == []
        assert [packet.opcode for packet in rig.tick(MILLISECOND)] == [Opcode.CONFIG]
    rig.receive(Opcode.CONFIG_ACK, PARENT, pack(CONFIG_ACK_BODY, slots=SLOTS, window=2))
    status, notice = rig.answer()
    assert status == Status.SUCCESS
    assert (notice["byte_length"], notice["window"], notice["length"], notice["wr_id"]) == (SLOTS, 2, CHUNK, 40)


def test_join_that_has_lost_a_rank_names_no_device() -> None:
    rig = NicRig(ranks=2, join=False)
    for rank in range(2):
        rig.join(rank, rank_mask=0b111)
    rig.engine.lose(1, rig.now)
    rig.settle()
    status, notice = rig.answer()
    assert (status, notice["byte_length"]) == (Status.PEER_LOST, 0)


def test_pending_is_an_answer() -> None:
    rig = NicRig(join=False)
    rig.join(0)
    for _ in range(4):
        rig.tick(3 * SECOND)
        rig.receive(Opcode.CONFIG_ACK, PARENT, bytes(8), status=Status.PENDING, node_bitmap=0b10)
    assert rig.job["state"] == JobState.CONFIGURING
    assert rig.device.notices == []


def test_refused_lease_tells_the_rank_the_size_that_would_fit() -> None:
    rig = NicRig(join=False)
    rig.join(0)
    rig.receive(Opcode.CONFIG_ACK, PARENT, pack(CONFIG_ACK_BODY, slots=4), status=Status.NO_RESOURCES)
    status, notice = rig.answer()
    assert (status, notice["byte_length"]) == (Status.NO_RESOURCES, 4)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"slots": 0}, Status.INVALID_REQUEST),
        ({"slots": 6}, Status.INVALID_REQUEST),
        ({"slots": 2}, Status.INVALID_REQUEST),
        ({"chunk": 96}, Status.INVALID_REQUEST),
        ({"chunk": 512}, Status.INVALID_REQUEST),
        ({"rank_bitmap": 0}, Status.INVALID_REQUEST),
        ({"rank_bitmap": 0b10}, Status.INVALID_REQUEST),
        ({"hop_count": 0}, Status.INVALID_REQUEST),
        ({"hop_count": 9}, Status.INVALID_REQUEST),
        ({"route": 3}, Status.INVALID_REQUEST),
        ({"route": Route.LOCAL}, Status.INVALID_REQUEST),
        ({"route": Route.RING, "node_index": 2}, Status.INVALID_REQUEST),
    ],
)
def test_join_that_makes_no_sense(change: dict, status: abi.Status) -> None:
    rig = NicRig(join=False)
    rig.join(0, **change)
    assert rig.answer()[0] == status
    assert rig.job["state"] == JobState.FREE


def test_rank_of_a_refused_incarnation_is_refused_on_a_node() -> None:
    """Else it would wait for the refused rank, which has gone."""
    rig = NicRig(Route.LOCAL)
    for queue in (1, 2):
        rig.device.open_queue(queue, client=queue)
    rig.join(1, key=KEY + 1, rank_bitmap=0b01, rank_mask=0b11)
    rig.engine.leave(0, 9, rig.now)
    rig.settle()
    rig.join(2, key=KEY + 1, rank_bitmap=0b10, rank_mask=0b11)
    assert rig.answer()[0] == Status.JID_IN_USE


def test_lease_refused_on_the_own_device() -> None:
    rig = NicRig(Route.LOCAL, join=False)
    for queue in range(3):
        rig.device.open_queue(queue, client=0)
        rig.join(queue, jid=JID + queue, slots=16, rank_bitmap=1)
    assert [rig.answer(number)[0] for number in range(3)] == [Status.SUCCESS, Status.SUCCESS, Status.NO_RESOURCES]


@pytest.mark.parametrize("route", [0, 3, 77, 255])
def test_config_with_an_invalid_route_is_dropped(route: int) -> None:
    rig = SwitchRig(join=False)
    assert rig.join(0, route=route) == []
    assert rig.count("drop_config") == 1
    assert rig.job["state"] == JobState.FREE


def test_switch_forms_no_job_for_a_ring() -> None:
    rig = SwitchRig(join=False)
    assert rig.join(0, route=Route.RING) == []
    assert rig.count("drop_config") == 1


def test_answer_to_a_closed_client_is_dropped() -> None:
    """The next client may have its queue, and wait for an answer with the same tag."""
    rig = NicRig(ranks=2, join=False)
    rig.join(0)
    rig.engine.lose(0, rig.now)
    rig.settle()
    assert [notice for notice in rig.device.notices if notice["queue"] == 0] == []
