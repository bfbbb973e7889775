"""The turn of a packet about a position, clock by clock: its states, the new record, and the answers."""

import pytest

from fpga_cosim.tb.steps import CLASS, DROP, OPCODE, STATUS, Steps, constants, number
from fpga_cosim.tb.verilated import Module

STATE = constants("engine_states", "SEGMENT")
FLAG = constants("fanin_constants", "FANIN_FLAG")
SUM, I32, SLOTS, POSITION = 1, 3, 8, 19
# A record from its lowest bits on: names and widths
LAYOUT = {"position": 32, "final": 1, "fresh": 1, "missing": 64, "wants": 64, "status": 8, "contributions": 32}
LAYOUT |= {
    "has_data": 1,
    "op": 8,
    "dtype": 8,
    "class": 2,
    "mid": 32,
    "sid": 32,
    "length": 16,
    "finished": 40,
    "ticket": 16,
    "hears": 1,
}
FLAGS = CLASS["ALL"] << 5 | FLAG["HAS_DATA"] | FLAG["WANTS_RESULT"]
PACKET = {"p_opcode": OPCODE["CONTRIBUTION"], "p_op": SUM, "p_dtype": I32, "p_flags": FLAGS, "p_position": POSITION}
PACKET |= {"p_seg": POSITION % SLOTS, "p_length": 64, "p_contributions": 1, "source_bit": 0b10, "below_source": 0b01}
JOB = {"is_active": 1, "mask": 0b11, "joined": 0b11, "slots": SLOTS, "chunk": 1024}
HAS_SUM = 1 << 64  # before the bits of children whose data wait
READY = {"accumulator_ready": 1, "divisor_ready": 1}
AGREES = {"op": SUM, "dtype": I32, "class": CLASS["ALL"], "length": 64}


def packed(**values: int) -> int:
    record = at = 0
    for name, width in LAYOUT.items():
        record, at = record | values.get(name, 0) << at, at + width
    return record


def unpacked(record: int) -> dict[str, int]:
    """The nonzero fields of a record."""
    found = {}
    for name, width in LAYOUT.items():
        found[name], record = record & (1 << width) - 1, record >> width
    return {name: value for name, value in found.items() if value}


def open_slot(missing: int, **other: int) -> int:
    """A slot of the packet's position with data of others."""
    return packed(**(AGREES | {"position": POSITION, "missing": missing, "has_data": 1, "contributions": 1} | other))


@pytest.fixture
def turn() -> Steps:
    """The turn of a packet of the second of two children."""
    return Steps(Module("segment"), **PACKET, **JOB, **READY)


def begin(turn: Steps, record: int, **other: int):
    turn.keep(s_record=record, **other)
    return turn.step(is_positional=1)


def test_one_that_does_not_complete_is_taken_at_once(turn: Steps) -> None:
    seen = begin(turn, packed(position=POSITION - SLOTS, final=1), mask=0b111)
    assert [seen[name] for name in ("goes_on", "works", "waits", "writes", "accumulate", "gives")] == [1, 0, 0, 1, 1, 1]
    assert (seen["adds"], seen["compute_op"], seen["compute_beats"]) == (1, 0, 1)  # a copy
    expected = AGREES | {"position": POSITION, "missing": 0b101, "wants": 0b10, "contributions": 1, "has_data": 1}
    assert unpacked(number(seen["record"])) == expected
    assert turn.step()["state"] == STATE["IDLE"]


def test_the_last_one_completes(turn: Steps) -> None:
    seen = begin(turn, open_slot(0b10), s_turns=HAS_SUM, result_to_group=1)
    assert [seen[name] for name in ("goes_on", "works", "writes", "compute_op")] == [0, 1, 1, SUM]
    assert turn.step()["state"] == STATE["COUNT"]
    seen = turn.step(now_us=99)
    assert (seen["opcode"], seen["to_group"], seen["bits"], seen["loads"]) == (OPCODE["RESULT"], 1, 0b11, 1)
    assert (seen["contributions"], seen["has_data"], seen["length"]) == (2, 1, 64)
    assert turn.trace("state", 3) == [STATE["RESULT"]] * 3
    turn.step(is_written=1)
    seen = turn.step(issued=5)
    assert (seen["writes"], seen["is_done"]) == (1, 1)
    expected = AGREES | {"position": POSITION, "final": 1, "wants": 0b10, "contributions": 2, "has_data": 1}
    assert unpacked(number(seen["record"])) == expected | {"finished": 99, "ticket": 5}
    assert turn.step()["state"] == STATE["IDLE"]


def test_it_waits_for_the_accumulator_and_for_the_last_result(turn: Steps) -> None:
    for inputs in (
        {"accumulator_ready": 0},
        {"issued": 3, "done": 1, "s_record": packed(position=POSITION - SLOTS, final=1, ticket=2)},
    ):
        turn.keep(s_record=open_slot(0b10))
        seen = turn.step(is_positional=1, **inputs)
        assert [seen[name] for name in ("waits", "works", "goes_on", "writes")] == [1, 0, 0, 0]
        assert turn.step()["state"] == STATE["IDLE"]


def test_what_is_dropped_changes_nothing(turn: Steps) -> None:
    for inputs, reason in (
        ({"p_length": 1028}, "POSITION"),
        ({"s_record": open_slot(0b10, position=POSITION + SLOTS)}, "STALE"),
        ({"s_record": open_slot(0b10, position=POSITION - SLOTS)}, "OPEN"),
    ):
        turn.keep(s_record=open_slot(0b10))
        seen = turn.step(is_positional=1, **inputs)
        assert (seen["drop"], seen["works"], seen["writes"], seen["accumulate"]) == (DROP[reason], 0, 0, 0)
    assert turn.step()["state"] == STATE["IDLE"]


def test_a_duplicate(turn: Steps) -> None:
    """It is not taken; a FINAL slot sends its result again."""
    seen = begin(turn, open_slot(0b01))
    assert [seen[name] for name in ("works", "waits", "writes", "accumulate", "opcode")] == [0] * 5
    seen = begin(turn, open_slot(0, final=1))
    assert (seen["works"], seen["writes"], seen["opcode"], seen["bits"]) == (1, 0, OPCODE["RESULT"], 0b10)
    assert turn.step(is_written=1)["state"] == STATE["RESULT"]
    assert turn.step()["state"] == STATE["SAVE"]


@pytest.mark.parametrize(
    ("record", "inputs", "status", "bits"),
    [
        (open_slot(0b10, op=2), {}, "OP_MISMATCH", 0b10),
        (open_slot(0b110), {"mask": 0b111, "left": 0b100}, "ABORTED", 0b100),
    ],
)
def test_the_job_ends(turn: Steps, record: int, inputs: dict[str, int], status: str, bits: int) -> None:
    seen = begin(turn, record, **inputs)
    assert (seen["aborts"], seen["works"], seen["end_status"], seen["end_bits"]) == (1, 1, STATUS[status], bits)
    assert turn.step()["state"] == STATE["IDLE"]


def test_a_position_without_data_ends_the_job(turn: Steps) -> None:
    begin(turn, open_slot(0b10, has_data=0), p_flags=CLASS["ALL"] << 5)
    turn.step()
    seen = turn.step()
    assert (seen["aborts"], seen["end_status"], seen["opcode"]) == (1, STATUS["OP_MISMATCH"], 0)
    assert turn.step()["state"] == STATE["IDLE"]


def test_a_probe_of_what_is_missing(turn: Steps) -> None:
    seen = begin(turn, open_slot(0b10), p_opcode=OPCODE["PROBE"])
    assert (seen["opcode"], seen["bits"], seen["loses"], seen["writes"]) == (OPCODE["NEED"], 0b10, 1, 0)
    assert not turn.step()["is_done"]
    assert turn.step(is_written=1)["is_done"]


@pytest.mark.parametrize(("had_loss", "age", "opcode"), [(0, 6000, "RESULT"), (1, 10, "RESULT"), (0, 10, "WAIT")])
def test_a_probe_of_what_is_there(turn: Steps, had_loss: int, age: int, opcode: str) -> None:
    """A result that may still be under way is not sent again, unless a packet was lost."""
    begin(turn, open_slot(0, final=1, finished=1000), p_opcode=OPCODE["PROBE"], had_loss=had_loss, now_us=1000 + age)
    seen = turn.step()
    assert (seen["state"], seen["loses"]) == (STATE["RESEND"], opcode == "RESULT")
    assert (seen if opcode == "RESULT" else turn.step())["opcode"] == OPCODE[opcode]


def test_a_probe_of_what_others_have_not_sent(turn: Steps) -> None:
    """WAIT names the child that was silent longest."""
    begin(turn, open_slot(0b11101), p_opcode=OPCODE["PROBE"])
    todo = 0b11101
    for bit, silence in ((0, 5), (2, 9), (3, 9), (4, 7)):
        seen = turn.step(todo=todo)
        assert (seen["looks"], seen["opcode"]) == (1, 0)
        assert turn.step(todo=todo, own_bit=bit, silence=silence)["skips"]
        todo &= ~(1 << bit)
    seen = turn.step(todo=0)
    assert (seen["opcode"], seen["oldest"], seen["oldest_us"], seen["missing"]) == (OPCODE["WAIT"], 2, 9, 0b11101)


def test_data_before_their_turn_are_stored_and_recalled(turn: Steps) -> None:
    turn.keep(in_order=1, child_buffer=1)
    seen = begin(turn, open_slot(0b11))  # that of the first child is missing
    assert (seen["stores"], seen["adds"], seen["goes_on"], number(seen["turns"])) == (1, 1, 1, 0b10)
    slot = POSITION % SLOTS
    assert (seen["compute_slot"], seen["compute_buffer"]) == (slot, slot | 16)  # the number 1, reversed
    first = {"source_bit": 0b01, "below_source": 0}
    seen = begin(turn, open_slot(0b01, has_data=0), s_turns=0b10, **first)
    assert (seen["stores"], seen["works"], seen["compute_op"], seen["bits"]) == (0, 1, 0, 0b10)
    turn.keep(todo=0b10, is_last=1)
    assert turn.step()["looks"]
    seen = turn.step(own_bit=1)
    assert [seen[name] for name in ("recalls", "accumulate", "skips", "compute_op", "uses_own")] == [1, 1, 1, SUM, 1]
    turn.keep(todo=0)
    assert turn.step()["state"] == STATE["FOLD"]
    seen = turn.step()
    assert (seen["recalls"], number(seen["turns"]), seen["writes_turns"]) == (0, HAS_SUM, 1)
    assert turn.step()["state"] == STATE["COUNT"]
