"""Commands to the sender, to the children of a walk, and to the group, with the fields of each opcode."""

import pytest

from fpga_cosim.tb.steps import OPCODE, STATUS, Steps
from fpga_cosim.tb.verilated import Module

PACKET = {"p_mac": 11, "p_address": 12, "p_jid": 13, "p_key": 14, "p_position": 15, "p_mid": 16, "p_sid": 17}
PACKET |= {"p_seg": 7, "p_source": 3, "p_token": 18, "p_opcode": OPCODE["PROBE"]}
CHILD = {"child_mac": 21, "child_address": 22, "child_token": 23, "own_bit": 5}
JOB = {"jid": 31, "key": 32, "mask": 0b1111, "joined": 0b0101, "slots": 8, "window": 4, "is_active": 1}
JOB |= {"end_status": STATUS["PEER_LOST"], "end_bits": 0b100, "end_above": 6, "end_lost": 0x0A000003}
POSITION = {"missing": 0b10, "wants": 1 << 5, "has_data": 1, "contributions": 41, "op": 2, "dtype": 3, "mid": 42}
POSITION |= {"contributor_class": 2, "sid": 43, "length": 512, "oldest": 1, "oldest_us": 44, "offered_slots": 16}
GROUP = 0xEFC80001  # 239.200.0.1
CONTEXT = PACKET | CHILD | JOB | POSITION | {"group_address": GROUP, "is_walked": 0}


@pytest.fixture
def writer() -> Steps:
    return Steps(Module("command_writer"), **CONTEXT)


def answer(writer: Steps, opcode: str, **asked: int) -> dict[str, int]:
    """The command to the sender."""
    writer.step(answers=1, opcode=OPCODE[opcode], **asked)
    seen = writer.step(**{name: value for name, value in asked.items() if name != "refusal"})
    assert (seen["push"], seen["is_written"], seen["uses_own"]) == (1, 1, 0)
    return fields(seen)


def told(writer: Steps, opcode: str, **asked: int) -> dict[str, int]:
    """The command to one child."""
    writer.step(opcode=OPCODE[opcode], **asked)
    assert writer.step(**asked)["looks"]
    seen = writer.step(**asked)
    assert (seen["push"], seen["is_written"], seen["uses_own"], seen["skips"]) == (1, 0, 1, 1)
    assert (seen["ends"], seen["is_sent"]) == ((1, 0) if asked.get("to_group") else (0, 1))
    last = writer.step(is_walked=1)
    assert (last["push"], last["is_written"]) == (0, 1)
    return fields(seen)


def fields(seen) -> dict[str, int]:
    names = [name for name in seen.dtype.names if name.startswith("c_")]
    values = {name.removeprefix("c_"): int.from_bytes(seen[name].tobytes(), "little") for name in names}
    return {name: value for name, value in values.items() if value and name not in ("opcode", "slot_beat")}


SENDER = {"mac": 11, "address": 12, "source": 3, "jid": 13, "key": 14}
ONE = {"mac": 21, "address": 22, "source": 5, "jid": 31, "key": 32}
ALL = {"mac": 0x01005E000000 | GROUP & 0x7FFFFF, "address": GROUP, "source": 5, "jid": 31, "key": 32}
ENDED = {"status": STATUS["PEER_LOST"], "node_bitmap": 0b100, "seg": 7, "rank_bitmap": 0x0A000003}
PLACE = {"position": 15, "mid": 16, "sid": 17, "seg": 7, "token": 18}
SIZES = int.from_bytes((8).to_bytes(4) + (4).to_bytes(4), "little")
RESULT = PLACE | {"mid": 42, "sid": 43, "op": 2, "dtype": 3, "contributions": 41, "node_bitmap": 1 << 5}
WITH_DATA = {"length": 512, "from_slot": 1, "flags": 0x41}
CONFIG_ACK_BYTES = 8


def test_answers(writer: Steps) -> None:
    assert answer(writer, "LEAVE_ACK") == SENDER
    assert answer(writer, "NAK") == SENDER | {"status": STATUS["NOT_CONFIGURED"]}
    assert answer(writer, "ABORT") == SENDER | ENDED
    assert answer(writer, "STATUS") == SENDER | {"token": 18}
    joining = {"status": STATUS["PENDING"], "seg": 1, "node_bitmap": 0b1010, "token": 18}
    assert answer(writer, "STATUS", is_active=0) == SENDER | joining
    refused = answer(writer, "CONFIG_ACK", refusal=STATUS["NO_RESOURCES"])
    body = int.from_bytes((16).to_bytes(4), "little")
    assert refused.pop("length") == CONFIG_ACK_BYTES
    assert refused == SENDER | {"status": STATUS["NO_RESOURCES"], "token": 18, "body": body}


def test_packets_to_a_child(writer: Steps) -> None:
    assert told(writer, "NEED") == ONE | PLACE
    assert told(writer, "ABORT") == ONE | ENDED
    assert told(writer, "KEEPALIVE") == ONE
    assert told(writer, "CONFIG_ACK") == ONE | {"token": 23, "length": CONFIG_ACK_BYTES, "body": SIZES}
    wait = told(writer, "WAIT")
    assert (wait.pop("body") >> 32 & 0x3F, wait.pop("length") > 0) == (1, True)
    assert wait == ONE | PLACE | {"node_bitmap": 0b10}
    assert told(writer, "RESULT") == ONE | RESULT | WITH_DATA
    assert told(writer, "RESULT", wants=0) == ONE | RESULT | {"flags": 0x40}
    other = {name: value for name, value in RESULT.items() if name != "token"}
    contribution = {"p_opcode": OPCODE["CONTRIBUTION"]}
    assert told(writer, "RESULT", **contribution) == ONE | other | WITH_DATA
    failed = told(writer, "RESULT", status=STATUS["ABORTED"])
    assert failed == ONE | RESULT | {"flags": 0x40, "status": STATUS["ABORTED"]}


def test_packets_to_the_group(writer: Steps) -> None:
    assert told(writer, "KEEPALIVE", to_group=1) == ALL | {"node_bitmap": 0b1111}
    assert told(writer, "RESULT", to_group=1, wants=1) == ALL | RESULT | WITH_DATA | {"node_bitmap": 0b1111}


def test_it_waits_where_the_queue_is_full(writer: Steps) -> None:
    writer.step(opcode=OPCODE["RESULT"])
    writer.step()
    for _ in range(3):
        seen = writer.step(is_full=1)
        assert (seen["push"], seen["skips"], seen["is_sent"]) == (0, 0, 0)
    assert writer.step()["push"]
    seen = writer.step(is_walked=1, slot_done=1)
    assert (seen["is_written"], seen["issued"], seen["done"]) == (1, 1, 0)
    assert writer.step()["done"] == 1
