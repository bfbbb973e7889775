"""A job has a number of lanes: a device without them refuses by name."""

import pytest

from fanin_wire.fields import CONFIG_BODY, Opcode
from tests.engine.rig import PARENT, SwitchRig, unpack


def switch_of(lanes: int) -> SwitchRig:
    """One lane of a switch with so many."""
    rig = SwitchRig(join=False)
    rig.engine.header["last_lane"] = lanes - 1
    return rig


@pytest.mark.parametrize("last_lane", [0, 1, 3])
def test_a_switch_with_enough_lanes_tells_the_switch_above(last_lane: int) -> None:
    rig = switch_of(4)
    rig.join(0, above=((PARENT, 0, 1),), last_lane=last_lane)
    sent = rig.join(1, above=((PARENT, 0, 1),), last_lane=last_lane)
    (config,) = (packet for packet in sent if packet.opcode == Opcode.CONFIG)
    assert unpack(CONFIG_BODY, config.payload)["last_lane"] == last_lane
