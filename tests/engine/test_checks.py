"""A packet of no job, or not for its position, is dropped and counted by reason. It changes nothing."""

import pytest

from fanin_wire import fields
from fanin_wire.abi import Route, Status
from fanin_wire.fields import BTH, CETH, WIRE_VERSION, Opcode
from tests.engine.rig import (
    ALL,
    JID,
    KEY,
    MILLISECOND,
    PARENT,
    PREVIOUS,
    SLOTS,
    STRANGER,
    NicRig,
    SwitchRig,
    child_address,
    f32,
    pack,
    place,
)

DATA = f32(1, 2).tobytes()


def snapshot(rig: SwitchRig) -> bytes:
    tables = rig.engine.tables
    return tables["jobs"][:-1].tobytes() + tables["slots"].tobytes() + tables["payload"].tobytes()


@pytest.mark.parametrize(
    ("counter", "sender", "ceth"),
    [
        ("drop_version", 0, {"version": WIRE_VERSION + 1}),
        ("drop_unknown_job", 0, {"jid": JID + 1}),
        ("drop_key", 0, {"key": KEY ^ 1}),
        ("drop_sender", 1, {}),
        ("drop_sender", 0, {"source": 1}),
        ("drop_sender", 0, {"source": 5}),
        ("drop_unknown_opcode", 0, {"source": 64}),
        ("drop_slot", 0, {"seg": 1}),
        ("drop_slot", 0, {"seg": SLOTS}),
        ("drop_length", 0, {"length": 4}),
        ("drop_length", 0, {"length": 9}),
    ],
)
def test_contribution(counter: str, sender: int, ceth: dict) -> None:
    rig = SwitchRig()
    before = snapshot(rig)
    rig.receive(
        Opcode.CONTRIBUTION, child_address(sender), DATA, **(place(0) | {"op": 1, "dtype": 1, "flags": 0x43} | ceth)
    )
    assert rig.count(counter) == 1
    assert snapshot(rig) == before


def test_stranger() -> None:
    rig = SwitchRig()
    assert rig.receive(Opcode.CONTRIBUTION, STRANGER, DATA, **place(0)) == []
    assert rig.count("drop_sender") == 1


def test_data_longer_than_a_chunk() -> None:
    rig = SwitchRig()
    assert rig.contribute(0, 0, f32(*range(17))) == []
    assert rig.count("drop_slot") == 1


def test_short_packets() -> None:
    rig = SwitchRig()
    for size in (0, 11, 12, fields.TRANSPORT_SIZE - 1):
        rig.receive_bytes(pack(BTH, opcode=Opcode.CONTRIBUTION)[:size].ljust(size, b"\0"), child_address(0))
    assert rig.count("drop_short") == 4


def test_ordinary_traffic_is_counted_and_left_alone() -> None:
    rig = SwitchRig()
    assert rig.receive_bytes(pack(BTH, opcode=0x64) + bytes(16), STRANGER) == []
    assert rig.count("ordinary_packets") == 1


def test_opcode_beyond_the_last_one() -> None:
    rig = SwitchRig()
    rig.receive_bytes(pack(BTH, opcode=0xCF) + pack(CETH, version=WIRE_VERSION, jid=JID, key=KEY), child_address(0))
    assert rig.count("drop_unknown_opcode") == 1


@pytest.mark.parametrize("opcode", [Opcode.RESULT, Opcode.NEED, Opcode.WAIT, Opcode.ACK, Opcode.STATUS])
def test_forbidden_opcodes_of_a_child(opcode: Opcode) -> None:
    rig = SwitchRig()
    before = snapshot(rig)
    assert rig.receive(opcode, child_address(0), **place(0)) == []
    assert rig.count("drop_unexpected") == 1
    assert snapshot(rig) == before


@pytest.mark.parametrize("opcode", [Opcode.RESULT, Opcode.NEED])
def test_unexpected_answers(opcode: Opcode) -> None:
    rig = NicRig()
    rig.post(f32(1))
    assert rig.from_parent(opcode, 1) == []
    assert rig.from_parent(opcode, SLOTS) == []
    assert rig.count("drop_unexpected") == 2
    assert rig.receive(opcode, STRANGER, **place(0)) == []
    assert rig.count("drop_sender") == 1


@pytest.mark.parametrize("opcode", [Opcode.CONTRIBUTION, Opcode.PROBE, Opcode.KEEPALIVE])
def test_unknown_job_is_answered_with_one_nak_a_millisecond(opcode: Opcode) -> None:
    rig = SwitchRig(join=False)
    (nak,) = rig.receive(opcode, STRANGER, jid=9, key=8, source=3)
    assert (nak.opcode, nak.destination, nak.ceth["status"]) == (Opcode.NAK, STRANGER, Status.NOT_CONFIGURED)
    assert (nak.ceth["jid"], nak.ceth["key"], nak.ceth["source"]) == (9, 8, 3)
    assert rig.receive(opcode, STRANGER, jid=9, key=8) == []
    rig.now += MILLISECOND
    assert len(rig.receive(opcode, STRANGER, jid=9, key=8)) == 1


@pytest.mark.parametrize(
    "opcode", [Opcode.RESULT, Opcode.NAK, Opcode.ABORT, Opcode.LEAVE_ACK, Opcode.CONFIG_ACK, Opcode.WAIT]
)
def test_an_answer_never_provokes_a_nak(opcode: Opcode) -> None:
    rig = SwitchRig(join=False)
    assert rig.receive(opcode, STRANGER, jid=9, key=8) == []


def test_nak_tells_a_nic_that_the_device_above_was_restarted() -> None:
    rig = NicRig()
    rig.post(f32(1))
    rig.receive(Opcode.NAK, PARENT, status=Status.NOT_CONFIGURED)
    rig.settle()
    assert rig.statuses() == [Status.PEER_LOST]


def test_nak_of_a_stranger_does_nothing() -> None:
    rig = NicRig()
    rig.receive(Opcode.NAK, STRANGER, status=Status.NOT_CONFIGURED)
    assert rig.count("drop_sender") == 1
    assert rig.count("jobs_aborted") == 0


UNKNOWN_STATUS = max(Status) + 1


def test_unknown_status_ends_a_job_with_a_known_one() -> None:
    rig = NicRig()
    rig.post(f32(1))
    rig.receive(Opcode.ABORT, PARENT, status=UNKNOWN_STATUS)
    rig.settle()
    assert rig.statuses() == [Status.ABORTED]


def test_result_with_an_unknown_status() -> None:
    rig = NicRig()
    rig.post(f32(1))
    rig.from_parent(Opcode.RESULT, 0, status=UNKNOWN_STATUS)
    assert rig.statuses() == [Status.ABORTED]


@pytest.mark.parametrize("position", [2**31, 2**31 + 5, 2**31 - 1, 2**31 - SLOTS, 2**30])
@pytest.mark.parametrize("opcode", [Opcode.CONTRIBUTION, Opcode.RESULT])
def test_position_half_a_stream_away_is_not_acknowledged(opcode: Opcode, position: int) -> None:
    """Nor are the positions between it and those in flight."""
    rig = NicRig(Route.RING)
    rig.post(f32(1))
    assert rig.receive(opcode, PREVIOUS, source=2, **place(position), flags=ALL) == []


def test_query_tells_strangers_nothing() -> None:
    rig = SwitchRig()
    assert rig.receive(Opcode.QUERY, STRANGER, source=0, token=1) == []
    assert rig.receive(Opcode.QUERY, child_address(0), source=0, token=1, key=1) == []
