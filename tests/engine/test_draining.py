"""A device that drains takes no new job, and lets those in that have begun to form."""

from fanin_wire.abi import Status
from fanin_wire.fields import Opcode
from tests.engine.rig import SwitchRig


def test_a_switch_refuses_a_new_job() -> None:
    rig = SwitchRig(join=False)
    rig.engine.header["draining"] = 1
    for bit in (0, 1, 0):  # as often as they ask
        (answer,) = rig.join(bit)
        assert (answer.opcode, answer.ceth["status"]) == (Opcode.CONFIG_ACK, Status["DRAINING"])
    assert not rig.engine.tables["jobs"]["state"][:-1].any()


def test_the_last_child_of_a_job_may_come() -> None:
    rig = SwitchRig(join=False)
    rig.join(0)
    rig.engine.header["draining"] = 1
    answers = [packet for packet in rig.join(1) if packet.opcode == Opcode.CONFIG_ACK]
    assert {packet.ceth["status"] for packet in answers} == {Status["SUCCESS"]}
