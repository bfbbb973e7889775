"""The address of the device whose loss ends a job: found, passed on, and given to the ranks."""

from fanin_nic.engine.engine import Timing
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode
from tests.engine.rig import PARENT, NicRig, Sent, f32

BOUND = Timing().detection
FAR = 0x0A4D00FD  # of a switch that is not a neighbour


def told(sent: list[Sent], opcode: Opcode = Opcode.ABORT) -> set[tuple[int, int]]:
    """Destinations of packets of an opcode, and the lost device that they name."""
    return {(packet.destination, packet.ceth["rank_bitmap"]) for packet in sent if packet.opcode == opcode}


def named_to_ranks(rig: NicRig) -> list[int]:
    return [int(completion["lost_device"]) for completion in rig.device.completions]


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
