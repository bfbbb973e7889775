"""Which packet may enter which slot: stale, current, replace, violation; also where positions wrap."""

import numpy as np
import pytest

from fanin_nic.engine.records.tables import SlotState
from fanin_wire.fields import Opcode
from tests.engine.rig import SLOTS, SwitchRig, f32

FIRSTS = pytest.mark.parametrize("first", [0, 1000, 2**31 - 3, 2**32 - 1, 2**32 - SLOTS], ids=hex)


def at(first: int, offset: int) -> int:
    return (first + offset) % 2**32


def complete(rig: SwitchRig, position: int, *values: float) -> list:
    rig.contribute(0, position, f32(*values))
    return rig.contribute(1, position, f32(*values))


@FIRSTS
def test_two_laps_in_order(first: int) -> None:
    rig = SwitchRig(first=first)
    for offset in range(2 * SLOTS + 1):
        sent = complete(rig, at(first, offset), offset, 1)
        assert [packet.opcode for packet in sent] == [Opcode.RESULT, Opcode.RESULT]
        assert sent[0].ceth["position"] == at(first, offset)
        assert np.frombuffer(sent[0].payload, "<f4").tolist() == [2 * offset, 2]
    assert rig.engine.header["slots_used"] == SLOTS


@FIRSTS
def test_stale_is_dropped(first: int) -> None:
    rig = SwitchRig(first=first)
    complete(rig, at(first, 0), 1)
    complete(rig, at(first, SLOTS), 2)
    assert rig.contribute(0, at(first, 0), f32(9)) == []
    assert rig.probe(0, at(first, 0)) == []
    assert rig.count("drop_stale") == 2
    assert rig.slot(at(first, SLOTS))["position"] == at(first, SLOTS)


@FIRSTS
def test_successor_of_an_open_slot_is_a_violation(first: int) -> None:
    rig = SwitchRig(first=first)
    rig.contribute(0, at(first, 0), f32(1))
    assert rig.contribute(0, at(first, SLOTS), f32(1)) == []
    assert rig.count("drop_slot") == 1
    assert rig.slot(at(first, 0))["position"] == at(first, 0)
    assert rig.slot(at(first, 0))["state"] == SlotState.OPEN


@FIRSTS
def test_a_lap_ahead_is_a_violation(first: int) -> None:
    rig = SwitchRig(first=first)
    complete(rig, at(first, 0), 1)
    assert rig.contribute(0, at(first, 2 * SLOTS), f32(1)) == []
    assert rig.probe(0, at(first, 2 * SLOTS)) == []
    assert rig.count("drop_slot") == 2
