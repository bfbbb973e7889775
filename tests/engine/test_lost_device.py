"""The address of the device whose loss ends a job: found, passed on, and told to the ranks."""

import pytest

from fanin_nic.engine.engine import Timing
from fanin_wire.abi import Route, Status
from fanin_wire.fields import Opcode
from tests.engine.rig import NEXT, PARENT, PREVIOUS, NicRig, Sent, SwitchRig, child_address, f32

BOUND = Timing().detection
FAR = 0x0A4D00FD  # of a switch that is no neighbour


def told(sent: list[Sent], opcode: Opcode = Opcode.ABORT) -> set[tuple[int, int]]:
    """Where packets of an opcode went, and which lost device they name."""
    return {(packet.destination, packet.ceth["rank_bitmap"]) for packet in sent if packet.opcode == opcode}


def named_to_ranks(rig: NicRig) -> list[int]:
    return [int(completion["lost_device"]) for completion in rig.device.completions]


def test_nic_names_the_silent_switch_to_its_ranks() -> None:
    rig = NicRig()
    rig.post(f32(1))
    rig.tick(BOUND + 1)
    assert rig.statuses() == [Status.PEER_LOST]
    assert named_to_ranks(rig) == [PARENT]


def test_switch_names_the_silent_switch_above_to_its_children() -> None:
    rig = SwitchRig(above=((PARENT, 1, 0b11),))
    rig.receive(Opcode.KEEPALIVE, PARENT, source=1)
    for _ in range(BOUND // Timing().keepalive):
        for bit in (0, 1):
            rig.receive(Opcode.KEEPALIVE, child_address(bit), source=bit)
        rig.tick(Timing().keepalive)
    sent = rig.tick(1)
    assert told(sent) >= {(child_address(0), PARENT), (child_address(1), PARENT)}
    assert told(sent, Opcode.LEAVE) == {(PARENT, PARENT)}


def test_nic_tells_its_ranks_what_the_switch_has_named() -> None:
    rig = NicRig()
    rig.post(f32(1))
    rig.receive(Opcode.ABORT, PARENT, status=Status.PEER_LOST, seg=2, node_bitmap=0b11, rank_bitmap=FAR)
    assert named_to_ranks(rig) == [FAR]


@pytest.mark.parametrize("opcode", [Opcode.ABORT, Opcode.LEAVE])
def test_switch_passes_on_what_a_child_has_named(opcode: Opcode) -> None:
    rig = SwitchRig(3)
    sent = rig.receive(
        opcode, child_address(1), source=1, status=Status.PEER_LOST, node_bitmap=0b010, rank_bitmap=child_address(1)
    )
    assert (child_address(0), child_address(1)) in told(sent)


@pytest.mark.parametrize("dead", [NEXT, PREVIOUS])
def test_ring_names_the_silent_neighbour(dead: int) -> None:
    rig = NicRig(Route.RING)
    rig.post(f32(1))
    for _ in range(BOUND // Timing().keepalive):
        address, source = (PREVIOUS, 2) if dead == NEXT else (NEXT, 1)
        rig.receive(Opcode.KEEPALIVE, address, source=source)
        rig.tick(Timing().keepalive)
    assert {address for _, address in told(rig.tick(1))} == {dead}
    assert named_to_ranks(rig) == [dead]


def test_one_silent_child_is_named_and_several_are_not() -> None:
    rig = SwitchRig(3)
    for _ in range(BOUND // Timing().keepalive):
        for bit in (0, 2):
            rig.receive(Opcode.KEEPALIVE, child_address(bit), source=bit)
        rig.tick(Timing().keepalive)
    assert {address for _, address in told(rig.tick(1))} == {child_address(1)}
    assert {address for _, address in told(SwitchRig(3).tick(BOUND + 1))} == {0}


def test_device_that_was_restarted_is_named() -> None:
    rig = NicRig()
    rig.post(f32(1))
    rig.receive(Opcode.NAK, PARENT, status=Status.NOT_CONFIGURED)
    assert named_to_ranks(rig) == [PARENT]


def test_other_statuses_name_no_device() -> None:
    rig = NicRig()
    rig.post(f32(1))
    sent = rig.receive(Opcode.ABORT, PARENT, status=Status.ABORTED, seg=1, node_bitmap=0b10, rank_bitmap=FAR)
    assert named_to_ranks(rig) == [0]
    assert {address for _, address in told(sent, Opcode.LEAVE)} == {0}


def test_first_reason_counts() -> None:
    rig = NicRig()
    rig.post(f32(1))
    rig.receive(Opcode.ABORT, PARENT, status=Status.PEER_LOST, seg=1, node_bitmap=0b10, rank_bitmap=FAR)
    rig.receive(Opcode.ABORT, PARENT, status=Status.PEER_LOST, seg=1, node_bitmap=0b10, rank_bitmap=PARENT)
    rig.post(f32(1))
    assert named_to_ranks(rig) == [FAR, FAR]


def test_join_that_is_given_up_names_the_device() -> None:
    rig = NicRig(join=False)
    rig.join(0)
    rig.tick(BOUND + 1)
    status, notice = rig.answer()
    assert (status, int(notice["byte_length"])) == (Status.PEER_LOST, PARENT)
