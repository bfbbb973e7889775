"""QUERY of a device below: STATUS says how far the job is, and nothing changes (SPEC.md, 10.8)."""

from fanin_wire.abi import Status
from fanin_wire.fields import CONFIG_ACK_BODY, Opcode
from tests.engine.rig import PARENT, SLOTS, STRANGER, Sent, SwitchRig, child_address, f32, pack

TOKEN = 0x1234
ABOVE = ((PARENT, 0, 0b11),)


def query(rig: SwitchRig, bit: int = 0, source: int | None = None, **changes: int) -> list[Sent]:
    """QUERY of a child; what the switch sends."""
    source = child_address(bit) if source is None else source
    return rig.receive(Opcode.QUERY, source, **({"source": bit, "token": TOKEN} | changes))


def told(rig: SwitchRig, bit: int = 0) -> tuple[int, int, int]:
    """Status, scope and members of the STATUS that a child gets."""
    (answer,) = query(rig, bit)
    assert (answer.opcode, answer.destination, answer.payload) == (Opcode.STATUS, child_address(bit), b"")
    assert (answer.ceth["token"], answer.ceth["source"]) == (TOKEN, bit)
    return answer.ceth["status"], answer.ceth["seg"], answer.ceth["node_bitmap"]


def test_a_running_job() -> None:
    rig = SwitchRig(2)
    assert told(rig, 1) == (Status.SUCCESS, 0, 0)
    rig.contribute(0, 0, f32(1))
    assert told(rig) == (Status.SUCCESS, 0, 0)
    answers = rig.contribute(1, 0, f32(2))
    assert {answer.opcode for answer in answers} == {Opcode.RESULT}  # the questions have changed nothing


def test_a_job_that_is_forming_names_who_is_missing() -> None:
    rig = SwitchRig(3, join=False)
    rig.join(1)
    assert told(rig, 1) == (Status.PENDING, 1, 0b101)


def test_a_job_that_waits_for_the_device_above() -> None:
    rig = SwitchRig(2, join=False)
    rig.join(0, above=ABOVE)
    rig.join(1, above=ABOVE)
    assert told(rig)[0] == Status.PENDING
    rig.receive(Opcode.CONFIG_ACK, PARENT, pack(CONFIG_ACK_BODY, slots=SLOTS, window=SLOTS // 2))
    assert told(rig)[0] == Status.SUCCESS


def test_an_ended_job_is_answered_as_ever() -> None:
    rig = SwitchRig(2)
    rig.receive(Opcode.LEAVE, child_address(1), source=1, status=Status.TIMEOUT)
    (answer,) = query(rig)
    assert (answer.opcode, answer.ceth["status"]) == (Opcode.ABORT, Status.TIMEOUT)


def test_strangers_learn_nothing() -> None:
    rig = SwitchRig(2)
    assert query(rig, source=STRANGER) == []
    assert query(rig, key=1) == []
    (answer,) = query(rig, jid=999)
    assert (answer.opcode, answer.ceth["status"]) == (Opcode.NAK, Status.NOT_CONFIGURED)
