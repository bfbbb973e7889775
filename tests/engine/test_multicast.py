"""Results by a multicast group: invitation and confirmation of children, one packet for all, and loss."""

import numpy as np
import pytest

from fanin_nic.engine.engine import Timing
from fanin_nic.engine.output import MAX_CONSECUTIVE_LOSSES
from fanin_wire.abi import DType, Status
from fanin_wire.fields import Flag, Opcode
from tests.engine.rig import ALL, LIMITS, ONE, PARENT, NicRig, Sent, SwitchRig, child_address, f32, ip, place

GROUP = "239.0.0.1"
KEEPALIVE_INTERVAL = Timing().keepalive


def switch(children: int = 3, **changes) -> SwitchRig:
    rig = SwitchRig(children, join=False, **changes)
    rig.engine.header["group"] = ip(GROUP)
    for bit in range(children):
        rig.join(bit)
    return rig


def results(sent: list[Sent]) -> dict[int, Sent]:
    return {packet.destination: packet for packet in sent if packet.opcode == Opcode.RESULT}


def contribute(rig: SwitchRig, hears: int, wants: int = 0b111, position: int = 0) -> dict[int, Sent]:
    """All children bring 1.0; those of the bitmap `hears` hear the group, those of `wants` want the sum."""
    sent: list[Sent] = []
    for bit in range(rig.children):
        flags = ALL | Flag.HAS_DATA | (Flag.HEARS_GROUP if hears >> bit & 1 else 0)
        flags |= Flag.WANTS_RESULT if wants >> bit & 1 else 0
        sent = rig.contribute(bit, position, f32(1), flags=flags)
    return results(sent)


# At the switch


def test_children_are_invited_when_the_job_begins_and_once_an_interval() -> None:
    rig = switch()
    (invitation,) = [packet for packet in rig.last if packet.destination == ip(GROUP)]
    assert (invitation.opcode, invitation.ceth["node_bitmap"]) == (Opcode.KEEPALIVE, 0b111)
    for bit in range(3):
        rig.receive(Opcode.KEEPALIVE, child_address(bit), source=bit)
    assert ip(GROUP) not in {packet.destination for packet in rig.tick(KEEPALIVE_INTERVAL // 2)}
    contribute(rig, hears=0)
    assert ip(GROUP) in {packet.destination for packet in rig.tick(KEEPALIVE_INTERVAL // 2)}


@pytest.mark.parametrize("hears", [0b000, 0b011, 0b110])
def test_each_gets_its_own_if_somebody_does_not_hear(hears: int) -> None:
    assert set(contribute(switch(), hears)) == {child_address(bit) for bit in range(3)}


@pytest.mark.parametrize(("wants", "packets"), [(0b000, 1), (0b001, 3), (0b011, 1), (0b111, 1)])
def test_data_that_few_want_go_to_these(wants: int, packets: int) -> None:
    assert len(contribute(switch(), hears=0b111, wants=wants)) == packets


def test_an_only_child_has_its_result_to_itself() -> None:
    assert set(contribute(switch(1), hears=1)) == {child_address(0)}


def test_without_a_group_there_are_no_invitations() -> None:
    rig = SwitchRig(3)
    assert {packet.destination for packet in rig.last} <= {child_address(bit) for bit in range(3)}
    assert len(contribute(rig, hears=0b111)) == 3


def test_a_poisoned_position_is_told_to_the_group() -> None:
    rig = switch()
    flags = ALL | Flag.WANTS_RESULT | Flag.HEARS_GROUP
    for bit in range(2):
        rig.contribute(bit, 0, f32(1), flags=flags | Flag.HAS_DATA)
    sent = rig.contribute(2, 0, flags=flags, dtype=DType.F32, status=Status.LOCAL_PROTECTION_ERROR)
    (result,) = results(sent).values()
    assert (result.destination, result.payload) == (ip(GROUP), b"")
    assert result.ceth["status"] == Status.LOCAL_PROTECTION_ERROR


@pytest.mark.parametrize(("listeners", "packets"), [(3, 1), (5, 1), (6, 3), (64, 3)])
def test_result_for_few_receivers_is_not_multicast(listeners: int, packets: int) -> None:
    rig = switch()
    rig.engine.header["group_size"] = listeners
    assert len(contribute(rig, hears=0b111)) == packets
    rig.tick(2 * KEEPALIVE_INTERVAL)
    assert (ip(GROUP) in {packet.destination for packet in rig.last}) == (packets == 1)


# At the child


def invited(rig: NicRig, bitmap: int = 0b11) -> None:
    assert rig.receive(Opcode.KEEPALIVE, PARENT, node_bitmap=bitmap) == []


def hears(rig: NicRig, position: int, by: int = 0b1) -> bool:
    """Whether the next CONTRIBUTION of a NIC has HEARS_GROUP; a RESULT for the devices `by` completes it."""
    (packet,) = rig.post(f32(1), mid=position)
    rig.from_parent(Opcode.RESULT, position, f32(2).tobytes(), mid=position, sid=0, node_bitmap=by)
    return bool(packet.ceth["flags"] & Flag.HEARS_GROUP)


def test_an_invitation_of_others_or_from_others_is_none() -> None:
    rig = NicRig()
    invited(rig, bitmap=0b10)
    rig.receive(Opcode.KEEPALIVE, ip("10.9.9.9"), node_bitmap=0b11)
    rig.receive(Opcode.KEEPALIVE, PARENT)  # to this device alone
    assert not hears(rig, 0)


def test_a_result_for_others_is_not_taken() -> None:
    rig, result = NicRig(), np.zeros(1, "f4")
    rig.post(f32(1), result)
    rig.from_parent(Opcode.RESULT, 0, f32(2).tobytes(), sid=0, node_bitmap=0b10)
    assert (result[0], rig.count("drop_not_addressed")) == (0, 1)
    rig.from_parent(Opcode.RESULT, 0, f32(2).tobytes(), sid=0, node_bitmap=0b11)
    assert result[0] == 2


def lose_results(rig: NicRig, position: int, number: int = MAX_CONSECUTIVE_LOSSES) -> int:
    """Lose RESULTs by the group one by one: each comes when the NIC asks. Returns the next position."""
    for lost in range(position, position + number):
        rig.post(f32(1), mid=lost)
        (probe,) = rig.tick(KEEPALIVE_INTERVAL // 10)
        assert probe.opcode == Opcode.PROBE
        rig.from_parent(Opcode.RESULT, lost, f32(2).tobytes(), mid=lost, sid=0, token=probe.ceth["token"])
    return position + number


def test_loss_raises_the_number_of_invitations_before_a_confirmation() -> None:
    rig, position = NicRig(limits=LIMITS._replace(regions=128)), 0
    invited(rig)
    for ignored in (1, 3, 7):
        assert hears(rig, position, by=0b11)
        position = lose_results(rig, position + 1)
        for _ in range(ignored):
            assert not hears(rig, position)
            invited(rig)
            position += 1
        assert not hears(rig, position)
        invited(rig)
        position += 1


def test_a_loss_now_and_then_is_none_of_the_group() -> None:
    rig, position = NicRig(limits=LIMITS._replace(regions=128)), 0
    invited(rig)
    for _ in range(3):
        position = lose_results(rig, position, MAX_CONSECUTIVE_LOSSES - 1)
        assert hears(rig, position, by=0b11)
        position += 1


def test_loss_outside_the_group_does_not_count() -> None:
    rig = NicRig()
    position = lose_results(rig, 0)
    invited(rig)
    assert hears(rig, position)


def test_confirmation_ends_with_the_invitations() -> None:
    rig = NicRig()
    invited(rig)
    rig.tick(3 * KEEPALIVE_INTERVAL)
    assert hears(rig, 0)
    rig.tick(1)
    assert not hears(rig, 1)


def test_losses_of_results_that_came_by_themselves_are_not_the_groups() -> None:
    rig = NicRig()
    invited(rig)
    assert hears(rig, 0)  # its result names this device alone
    assert hears(rig, lose_results(rig, 1))


def test_switch_leaves_the_group_after_lost_results() -> None:
    """It asks when a child asks, and keeps no time."""
    rig = SwitchRig(2, above=((PARENT, 5, 0xFF),))
    rig.receive(Opcode.KEEPALIVE, PARENT, node_bitmap=0xFF, source=0)
    for position in range(MAX_CONSECUTIVE_LOSSES + 1):
        sent: list[Sent] = []
        for bit in range(2):
            sent = rig.contribute(bit, position, f32(1))
        (up,) = [packet for packet in sent if packet.opcode == Opcode.CONTRIBUTION]
        assert up.ceth["flags"] & Flag.HEARS_GROUP == (0 if position == MAX_CONSECUTIVE_LOSSES else Flag.HEARS_GROUP)
        (probe,) = [packet for packet in rig.probe(0, position) if packet.opcode == Opcode.PROBE]
        answer = place(position) | {"flags": ALL | Flag.HAS_DATA, "op": 1, "dtype": DType.F32, "source": 5}
        answer |= {"node_bitmap": 1 << 5, "token": probe.ceth["token"]}
        assert len(results(rig.receive(Opcode.RESULT, PARENT, f32(9).tobytes(), **answer))) == 2


# Devices outside of the group


@pytest.mark.parametrize("is_switch", [False, True])
def test_device_without_the_job_is_silent(is_switch: bool) -> None:
    rig = SwitchRig(2, join=False) if is_switch else NicRig(join=False)
    assert rig.receive(Opcode.KEEPALIVE, PARENT, node_bitmap=0b11) == []
    assert rig.receive(Opcode.RESULT, PARENT, **place(0), node_bitmap=0b11, flags=ONE) == []
    (denial,) = rig.receive(Opcode.KEEPALIVE, PARENT)  # to this device alone
    assert (denial.opcode, denial.destination) == (Opcode.NAK, PARENT)
