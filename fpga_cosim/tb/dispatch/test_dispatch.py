"""A packet by its job, its key, its sender and its opcode (SPEC.md, section 5), and the machine that gets the turn."""

import pytest

from fanin_wire.fields import WIRE_VERSION
from fpga_cosim.tb.steps import DROP, JOB, OPCODE, STATUS, Steps, constants
from fpga_cosim.tb.verilated import Module

TURN = constants("engine_states", "TURN")
SOURCE, ADDRESS = 0b010, 0x0A000002
KNOWN = {"found": 1, "job_state": JOB["ACTIVE"], "key_is_right": 1, "mask": 0b111, "joined": 0b111}
SENDER = {"source_bit": SOURCE, "p_address": ADDRESS, "child_address": ADDRESS, "p_version": WIRE_VERSION}
ENDED = KNOWN | {"job_state": JOB["TOMBSTONE"]}
UNKNOWN = {"found": 0}


def decide(opcode: str, **inputs: int) -> tuple[Steps, object]:
    """The clock in which a packet is decided."""
    steps = Steps(Module("dispatch"), header_valid=1, p_opcode=OPCODE[opcode], **(SENDER | inputs))
    steps.step()
    return steps, steps.step()


@pytest.mark.parametrize(
    ("opcode", "inputs", "answer", "drop"),
    [
        ("CONTRIBUTION", KNOWN | {"p_drop": DROP["ICRC"]}, "", "ICRC"),
        ("CONFIG", {"p_version": WIRE_VERSION + 1}, "CONFIG_ACK", "NONE"),
        ("LEAVE", UNKNOWN, "LEAVE_ACK", "NONE"),
        ("PROBE", UNKNOWN, "NAK", "NONE"),
        ("KEEPALIVE", UNKNOWN, "NAK", "NONE"),
        ("KEEPALIVE", UNKNOWN | {"p_node_bitmap": 1}, "", "UNKNOWN_JOB"),
        ("RESULT", UNKNOWN, "", "UNKNOWN_JOB"),
        ("QUERY", KNOWN | {"job_state": JOB["REMEMBERED"]}, "NAK", "NONE"),
        ("QUERY", KNOWN | {"key_is_right": 0}, "", "KEY"),
        ("LEAVE", KNOWN | {"key_is_right": 0}, "LEAVE_ACK", "NONE"),
        ("QUERY", ENDED, "ABORT", "NONE"),
        ("NAK", ENDED, "", "ENDED"),
        ("RESULT", KNOWN, "", "GOES_DOWN"),
        ("QUERY", KNOWN | {"child_address": 1}, "", "SENDER"),
        ("QUERY", KNOWN | {"joined": 0}, "", "SENDER"),
        ("LEAVE", KNOWN | {"child_address": 1}, "", "SENDER"),
        ("LEAVE", KNOWN | {"mask": 0b101, "joined": 0b101}, "", "BIT"),
        ("QUERY", KNOWN, "STATUS", "NONE"),
        ("KEEPALIVE", KNOWN, "", "NONE"),
        ("NAK", KNOWN | {"job_state": JOB["JOINING"]}, "", "NONE"),
        ("NAK", KNOWN | {"left": SOURCE}, "", "NONE"),
        ("CONTRIBUTION", KNOWN | {"segment_drop": DROP["STALE"]}, "", "STALE"),
    ],
)
def test_packets_that_need_no_other_machine(opcode: str, inputs: dict[str, int], answer: str, drop: str) -> None:
    steps, seen = decide(opcode, **inputs)
    assert (seen["opcode"], seen["drop"]) == (OPCODE[answer] if answer else 0, DROP[drop])
    assert [seen[name] for name in ("aborts", "joins", "leaves", "remembers")] == [0] * 4
    if answer:
        assert steps.step()["state"] == TURN["ANSWER"]
        steps.step(is_written=1)
    assert steps.step()["header_pop"]
    assert steps.step(header_valid=0)["is_idle"]


@pytest.mark.parametrize(
    ("opcode", "inputs", "machine"),
    [
        ("CONFIG", {}, "joins"),
        ("LEAVE", KNOWN, "leaves"),
        ("LEAVE", ENDED, "leaves"),
        ("LEAVE", KNOWN | {"joined": 0}, "leaves"),
        ("LEAVE", UNKNOWN | {"p_status": STATUS["ABORTED"]}, "remembers"),
        ("ABORT", KNOWN, "aborts"),
        ("NAK", KNOWN, "aborts"),
        ("PROBE", KNOWN | {"segment_works": 1}, "is_positional"),
    ],
)
def test_another_machine_has_the_turn_until_it_is_done(opcode: str, inputs: dict[str, int], machine: str) -> None:
    steps, seen = decide(opcode, **inputs)
    machines = ("joins", "leaves", "remembers", "aborts", "is_positional")
    assert [name for name in machines if seen[name]] == [machine]
    assert seen["is_heard"] == (inputs.get("found", 0) == 1)
    assert steps.trace("state", 3) == [TURN["BUSY"]] * 3
    steps.step(others_are_done=1)
    assert steps.step(header_valid=0)["state"] == TURN["RELEASE"]


@pytest.mark.parametrize(
    ("opcode", "status", "expected"),
    [
        ("NAK", 0, (STATUS["PEER_LOST"], SOURCE, 0, ADDRESS)),
        ("ABORT", STATUS["SUCCESS"], (STATUS["ABORTED"], 0b100, 6, 0)),
        ("ABORT", STATUS["TIMEOUT"], (STATUS["TIMEOUT"], 0b100, 6, 0)),
        ("ABORT", STATUS["PEER_LOST"], (STATUS["PEER_LOST"], 0b100, 6, 99)),
    ],
)
def test_why_a_job_ends(opcode: str, status: int, expected: tuple[int, ...]) -> None:
    _, seen = decide(opcode, **KNOWN, p_status=status, p_node_bitmap=0b100, p_seg=6, p_rank_bitmap=99)
    assert tuple(seen[f"end_{name}"] for name in ("status", "bits", "above", "lost")) == expected


def test_one_nak_in_a_while() -> None:
    steps = Steps(Module("dispatch"), header_valid=1, p_opcode=OPCODE["QUERY"], **SENDER)
    seen = []
    for now in (5000, 5999, 6000):
        steps.trace("state", 2, now_us=now, header_valid=0)
        steps.step(now_us=now)
        seen.append(int(steps.step(now_us=now)["drop"]))
        steps.step(now_us=now, is_written=1)
        steps.trace("state", 2, now_us=now, header_valid=0)
    assert seen == [DROP["NONE"], DROP["NAK_LIMIT"], DROP["NONE"]]


@pytest.mark.parametrize(("gives", "clocks"), [(0, 3), (1, 0)])
def test_the_payload_is_given_back(gives: int, clocks: int) -> None:
    """By the accumulator, when it is ready; with the data, if they are computed."""
    steps, seen = decide("CONTRIBUTION", **KNOWN, has_payload=1, segment_gives=gives)
    assert not seen["header_pop"]
    for _ in range(clocks):
        seen = steps.step()
        assert (seen["gives_back"], seen["header_pop"]) == (1, 0)
    seen = steps.step(accumulator_ready=1)
    assert (seen["gives_back"], seen["header_pop"]) == (not gives, 1)


def test_a_contribution_that_is_taken_at_once() -> None:
    steps, seen = decide("CONTRIBUTION", **KNOWN, has_payload=1, segment_gives=1, segment_goes_on=1)
    assert seen["header_pop"]
    assert steps.step()["state"] == TURN["IDLE"]


def test_a_contribution_that_waits_is_decided_upon_again() -> None:
    steps, _ = decide("CONTRIBUTION", **KNOWN, segment_waits=1)
    assert steps.trace("is_positional", 3) == [1, 1, 1]


def test_a_scan_goes_before_a_packet() -> None:
    steps = Steps(Module("dispatch"), header_valid=1)
    assert steps.step(scan_is_due=1)["scans"]
    assert steps.trace("state", 2) == [TURN["SCAN"]] * 2
    steps.step(scan_is_done=1)
    assert steps.step()["state"] == TURN["IDLE"]
    assert steps.step()["state"] == TURN["DECIDE"]
