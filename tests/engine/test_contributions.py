"""Contributions that an engine must refuse, and statuses that poison a single position."""

import pytest

from fanin_wire import abi
from fanin_wire.abi import DType, Op, Status
from fanin_wire.fields import Flag, Opcode
from tests.engine.rig import ONE, SLOTS, SwitchRig, f32

NO_OP, NO_TYPE = int(max(Op)) + 1, int(max(DType)) + 1


def test_second_data_of_a_one_position_is_a_mismatch() -> None:
    rig = SwitchRig()
    rig.contribute(0, 0, f32(1), flags=ONE | Flag.HAS_DATA)
    sent = rig.contribute(1, 0, f32(1), flags=ONE | Flag.HAS_DATA)
    assert {packet.ceth["status"] for packet in sent} == {Status.OP_MISMATCH}


@pytest.mark.parametrize(
    ("op", "dtype"), [(0, 1), (NO_OP, 1), (21, 11), (23, 1), (200, 1), (6, 1), (1, 0), (1, NO_TYPE), (1, 255), (4, 255)]
)
def test_data_that_no_kernel_computes_is_dropped(op: int, dtype: int) -> None:
    rig = SwitchRig()
    for bit in range(2):
        assert rig.contribute(bit, 0, f32(1), op=op, dtype=dtype) == []
    assert rig.count("drop_unexpected") == 2
    assert rig.engine.header["slots_used"] == 0


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
    """A later position of the slot is sound."""
    rig = SwitchRig()
    for bit in range(2):
        rig.contribute(bit, 0, status=Status.LOCAL_PROTECTION_ERROR)
    rig.contribute(0, SLOTS, f32(1))
    sent = rig.contribute(1, SLOTS, f32(2))
    assert [Status(packet.ceth["status"]) for packet in sent] == [Status.SUCCESS] * 2
