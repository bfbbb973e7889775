"""Contributions: duplicates count once, all must agree, and unreadable data poison their position."""

import numpy as np
import pytest

from fanin_nic.engine.records.tables import JobState
from fanin_wire import abi
from fanin_wire.abi import Status
from fanin_wire.fields import Flag, Opcode
from tests.engine.rig import ALL, ONE, SLOTS, NicRig, SwitchRig, child_address, f32


def test_duplicate_changes_nothing() -> None:
    rig = SwitchRig(3)
    for _ in range(3):
        assert rig.contribute(0, 0, f32(1, 2)) == []
    assert rig.count("drop_duplicate") == 2
    rig.contribute(2, 0, f32(10, 20))
    sent = rig.contribute(1, 0, f32(100, 200))
    assert np.frombuffer(sent[0].payload, "<f4").tolist() == [111, 222]
    assert sent[0].ceth["contributions"] == 3


def test_duplicate_of_a_final_position_brings_its_result_again() -> None:
    rig = SwitchRig()
    rig.contribute(0, 0, f32(1))
    first = rig.contribute(1, 0, f32(2))
    again = rig.contribute(1, 0, f32(2))
    assert again == first[1:]
    assert again[0].destination == child_address(1)


def test_each_child_gets_its_blocks() -> None:
    rig = SwitchRig()
    rig.contribute(0, 0, f32(1), flags=ALL | Flag.HAS_DATA)
    to_first, to_second = rig.contribute(1, 0, f32(2))
    assert (to_first.payload, to_first.ceth["flags"] & Flag.HAS_DATA) == (b"", 0)
    assert to_second.payload == f32(3).tobytes()


def test_one_contributor_and_credits() -> None:
    rig = SwitchRig(3)
    for bit in range(2):
        rig.contribute(bit, 0, flags=ONE | Flag.WANTS_RESULT, dtype=abi.DType.F32)
    sent = rig.contribute(2, 0, f32(4), flags=ONE | Flag.HAS_DATA)
    assert [packet.payload for packet in sent] == [f32(4).tobytes(), f32(4).tobytes(), b""]


@pytest.mark.parametrize(
    "changes",
    [
        {"op": abi.Op.MAX},
        {"dtype": abi.DType.I32},
        {"mid": 4},
        {"sid": 9},
        {"flags": ONE | Flag.HAS_DATA},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_mismatch_ends_the_job_for_all(changes: dict) -> None:
    rig = SwitchRig()
    rig.contribute(0, 0, f32(1))
    sent = rig.contribute(1, 0, f32(1), **changes)
    assert [packet.opcode for packet in sent] == [Opcode.ABORT, Opcode.ABORT]
    assert {packet.destination for packet in sent} == {child_address(0), child_address(1)}
    for packet in sent:
        assert packet.ceth["status"] == Status.OP_MISMATCH
        assert packet.ceth["node_bitmap"] == 0b10
    assert rig.job["state"] == JobState.ABORTED


def test_other_length_is_a_mismatch() -> None:
    rig = SwitchRig()
    rig.contribute(0, 0, f32(1, 2))
    assert {p.ceth["status"] for p in rig.contribute(1, 0, f32(1))} == {Status.OP_MISMATCH}


def test_second_data_of_a_one_position_is_a_mismatch() -> None:
    rig = SwitchRig()
    rig.contribute(0, 0, f32(1), flags=ONE | Flag.HAS_DATA)
    sent = rig.contribute(1, 0, f32(1), flags=ONE | Flag.HAS_DATA)
    assert {packet.ceth["status"] for packet in sent} == {Status.OP_MISMATCH}


@pytest.mark.parametrize(
    ("op", "dtype"), [(0, 1), (14, 1), (21, 11), (23, 1), (200, 1), (6, 1), (1, 0), (1, 21), (1, 255), (4, 255)]
)
def test_data_that_no_kernel_computes_is_dropped(op: int, dtype: int) -> None:
    rig = SwitchRig()
    for bit in range(2):
        assert rig.contribute(bit, 0, f32(1), op=op, dtype=dtype) == []
    assert rig.count("drop_unexpected") == 2
    assert rig.engine.header["slots_used"] == 0


def test_mismatch_between_ranks_of_a_node() -> None:
    rig = NicRig(abi.Route.LOCAL, ranks=2)
    rig.post(f32(1, 2), rank=0)
    rig.post(f32(1, 2, 3), rank=1)
    rig.settle()
    assert rig.statuses() == [Status.OP_MISMATCH] * 2
    assert {int(completion["missing"]) for completion in rig.device.completions} == {0b10}


def test_poison_ends_the_position_not_the_stream() -> None:
    rig = SwitchRig()
    rig.contribute(0, 0, f32(1))
    sent = rig.contribute(1, 0, status=Status.LOCAL_PROTECTION_ERROR, dtype=abi.DType.F32)
    assert [(p.opcode, p.ceth["status"], p.payload) for p in sent] == [
        (Opcode.RESULT, Status.LOCAL_PROTECTION_ERROR, b"")
    ] * 2
    rig.contribute(0, 1, f32(1))
    assert [p.ceth["status"] for p in rig.contribute(1, 1, f32(1))] == [0, 0]


def test_poison_does_not_stay_in_the_slot() -> None:
    """The slot serves a later position after it; that one is sound."""
    rig = SwitchRig()
    for bit in range(2):
        rig.contribute(bit, 0, status=Status.LOCAL_PROTECTION_ERROR)
    rig.contribute(0, SLOTS, f32(1))
    sent = rig.contribute(1, SLOTS, f32(2))
    assert [Status(packet.ceth["status"]) for packet in sent] == [Status.SUCCESS] * 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_several_poisons_the_highest_code_is_kept(order: tuple[int, int]) -> None:
    rig = SwitchRig()
    statuses = [Status.BUFFER_ERROR, Status.LOCAL_PROTECTION_ERROR]
    for bit in order:
        sent = rig.contribute(bit, 0, status=statuses[bit])
    assert {packet.ceth["status"] for packet in sent} == {Status.LOCAL_PROTECTION_ERROR}


def test_unreadable_memory_contributes_poison() -> None:
    rig = NicRig()
    sent = rig.post(np.zeros(32, "<f4"), source_lkey=99)
    assert [packet.opcode for packet in sent] == [Opcode.CONTRIBUTION] * 2
    assert {(p.ceth["status"], p.payload) for p in sent} == {(Status.LOCAL_PROTECTION_ERROR, b"")}
    for position in range(2):
        rig.from_parent(Opcode.RESULT, position, status=Status.LOCAL_PROTECTION_ERROR)
    assert rig.statuses() == [Status.LOCAL_PROTECTION_ERROR]


def test_result_of_a_poisoned_position_reaches_ranks_that_did_well() -> None:
    rig = NicRig()
    result = f32(0)
    rig.post(f32(1), result)
    rig.from_parent(Opcode.RESULT, 0, status=Status.LOCAL_PROTECTION_ERROR)
    assert rig.statuses() == [Status.LOCAL_PROTECTION_ERROR]
    assert result == 0
    assert rig.last == []
