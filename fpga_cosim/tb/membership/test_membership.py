"""Joins and leaves, clock by clock: the verdict on a CONFIG, and the effects of a LEAVE."""

import pytest

from fpga_cosim.tb.steps import JOB, OPCODE, STATUS, Steps, number
from fpga_cosim.tb.verilated import Module

LEASE = 3
SLOTS, SOURCE, CHILDREN = 1 << LEASE, 0b0010, 0b0111
ADDRESS, BOOT, DIGEST = 0x0A000002, 77, 5 << 90
SENDER = {"p_address": ADDRESS, "source_bit": SOURCE, "below_source": SOURCE - 1}
CONFIG = {"config_boot": BOOT, "config_digest": DIGEST, "config_slots": SLOTS, "config_chunk": 1024}
CONFIG |= {"config_mask": CHILDREN, "config_hops": 1, "config_route": 1}
KNOWN = {"found": 1, "key_is_right": 1, "mask": CHILDREN, "slots": SLOTS, "chunk": 1024, "digest": DIGEST}
KNOWN |= {"job_state": JOB["JOINING"]}
JOINED = {"joined": SOURCE, "child_address": ADDRESS, "child_boot": BOOT}
IDLE = {"nothing_is_sent": 1, "accumulator_is_idle": 1}
REPRODUCIBLE_RUN = 2


def membership(**inputs: int) -> Steps:
    return Steps(Module("membership", {"LEASE": LEASE}), **SENDER, has_entry=1, **inputs)


def join(steps: Steps, **inputs: int):
    """The clock in which a CONFIG is decided."""
    steps.keep(**(CONFIG | inputs))
    steps.step(joins=1)
    steps.step()
    steps.step(config_is_read=1)
    steps.step()
    return steps.step()


@pytest.mark.parametrize(
    ("inputs", "status", "offered"),
    [
        ({"config_lane": 1}, "TOO_FEW_LANES", 0),
        ({"config_hops": 2}, "NOT_SUPPORTED", 0),
        ({"config_flags": 1}, "NOT_SUPPORTED", 0),
        ({"config_flags": 4}, "NOT_SUPPORTED", 0),
        ({"config_slots": 2}, "NO_RESOURCES", SLOTS),
        ({"config_chunk": 1025}, "NO_RESOURCES", 0),
        ({"has_entry": 0}, "NO_RESOURCES", 0),
        ({"config_flags": REPRODUCIBLE_RUN, "config_mask": 0xFF}, "NO_RESOURCES", 0),  # buffers take all of the slots
        (KNOWN | {"key_is_right": 0}, "JID_IN_USE", 0),
        (KNOWN | {"mask": 0b0101, "joined": 0b0101}, "JID_IN_USE", 0),
        (KNOWN | JOINED | {"child_address": ADDRESS + 1}, "JID_IN_USE", 0),
    ],
)
def test_refusals(inputs: dict[str, int], status: str, offered: int) -> None:
    steps = membership()
    seen = join(steps, **inputs)
    assert (seen["answers"], seen["opcode"], seen["refusal"]) == (1, OPCODE["CONFIG_ACK"], STATUS[status])
    assert seen["refuses_key"] == (inputs.get("key_is_right") == 0)
    assert (seen["forms"], seen["aborts"], seen["job_is_heard"]) == (0, 0, 0)
    seen = steps.step(is_written=1)
    assert (seen["is_done"], seen["offered_slots"], seen["adds"]) == (1, offered, 0)


@pytest.mark.parametrize(
    "inputs", [{"config_is_wrong": 1}, {"config_route": 2}, KNOWN | JOINED | {"config_is_wrong": 1}]
)
def test_what_is_dropped(inputs: dict[str, int]) -> None:
    seen = join(membership(), **inputs)
    assert (seen["drops"], seen["opcode"], seen["forms"], seen["is_heard"]) == (1, 0, 0, 0)


@pytest.mark.parametrize(("flags", "mask", "lease"), [(0, CHILDREN, SLOTS), (2, 0b11, SLOTS), (2, 0b111, SLOTS // 2)])
def test_the_first_child(flags: int, mask: int, lease: int) -> None:
    """A job in order has a buffer in its slots for each child but the first."""
    steps = membership()
    seen = join(steps, config_flags=flags, config_mask=mask)
    assert (seen["forms"], seen["config_lease"], seen["config_in_order"]) == (1, lease, flags == REPRODUCIBLE_RUN)
    steps.keep(**KNOWN | {"mask": mask})
    seen = steps.step()
    assert (seen["adds"], seen["job_is_heard"], seen["buffer"]) == (1, 1, 0)  # one child is before it
    assert (seen["opcode"], seen["bits"], seen["answers"]) == (OPCODE["CONFIG_ACK"], SOURCE, 0)
    assert steps.step(is_written=1)["is_done"]


@pytest.mark.parametrize("may_invite", [0, 1])
def test_the_last_child(may_invite: int) -> None:
    """All slots are opened, all children get CONFIG_ACK, and an invitation if there is a group."""
    steps = membership(**KNOWN | {"joined": CHILDREN & ~SOURCE, "may_invite": may_invite})
    assert join(steps)["job_is_heard"]
    seen = steps.step()
    assert (seen["adds"], seen["opcode"]) == (1, 0)
    assert not steps.step(nothing_is_sent=1)["opens"]  # the accumulator works
    for slot in range(SLOTS):
        seen = steps.step(**IDLE)
        assert (seen["opens"], seen["walks"], seen["walk"], seen["halves"]) == (1, 1, slot, slot == SLOTS - 1)
    seen = steps.step(joined=CHILDREN)
    assert (seen["activates"], seen["opcode"], seen["bits"]) == (1, OPCODE["CONFIG_ACK"], CHILDREN)
    assert not steps.step()["is_done"]
    assert steps.step(is_written=1)["is_done"] == (not may_invite)
    seen = steps.step()
    assert (seen["invites"], seen["to_group"]) == (may_invite, may_invite)
    assert seen["opcode"] == (OPCODE["KEEPALIVE"] if may_invite else 0)
    assert steps.step(is_written=1)["is_done"] == may_invite


def test_a_config_that_comes_again() -> None:
    steps = membership(**KNOWN | JOINED)
    seen = join(steps)
    assert (seen["is_heard"], seen["job_is_heard"], seen["answers"]) == (1, 1, 0)
    assert (seen["opcode"], seen["bits"], seen["aborts"]) == (OPCODE["CONFIG_ACK"], SOURCE, 0)
    assert steps.step(is_written=1)["is_done"]


@pytest.mark.parametrize("state", ["TOMBSTONE", "REMEMBERED"])
def test_a_job_that_has_ended(state: str) -> None:
    seen = join(membership(**KNOWN | {"job_state": JOB[state]}))
    assert (seen["answers"], seen["opcode"], seen["refusal"], seen["aborts"]) == (1, OPCODE["ABORT"], 0, 0)


@pytest.mark.parametrize("name", ["digest", "chunk", "mask", "route", "lane", "flags"])
def test_one_that_does_not_agree_ends_the_job(name: str) -> None:
    """A sender that has not joined is told first."""
    other = {f"config_{name}": {"digest": 1, "chunk": 512, "mask": 0b11, "route": 2, "lane": 1, "flags": 2}[name]}
    ended = (1, STATUS["MEMBERS_MISMATCH"], SOURCE)
    seen = join(membership(**KNOWN | JOINED), **other)
    assert (seen["aborts"], seen["end_status"], seen["end_bits"]) == ended
    assert (seen["ends"], seen["answers"]) == (1, 0)
    steps = membership(**KNOWN)
    seen = join(steps, **other)
    assert (seen["aborts"], seen["end_status"], seen["end_bits"]) == ended
    assert (seen["ends"], seen["answers"], seen["opcode"]) == (0, 1, OPCODE["ABORT"])
    seen = steps.step(is_written=1)
    assert (seen["ends"], seen["aborts"], seen["is_done"]) == (1, 0, 0)


def test_a_child_that_was_started_again_is_lost() -> None:
    seen = join(membership(**KNOWN | JOINED), config_boot=BOOT + 1)
    assert (seen["aborts"], seen["ends"], seen["end_status"]) == (1, 1, STATUS["PEER_LOST"])
    assert (seen["end_bits"], seen["end_lost"]) == (SOURCE, ADDRESS)


def leave(**inputs: int) -> tuple[Steps, object]:
    steps = membership(**KNOWN | {"job_state": JOB["ACTIVE"], "joined": CHILDREN} | inputs)
    steps.step(leaves=1)
    assert not steps.step()["departs"]  # the LEAVE_ACK is first
    steps.step(is_written=1)
    return steps, steps.step()


@pytest.mark.parametrize("needed", [None, 0, 5, 7])
def test_a_child_leaves(needed: int | None) -> None:
    """The job ends if an open position needs its data."""
    steps, seen = leave()
    assert (seen["departs"], seen["aborts"], seen["empties"], seen["is_done"]) == (1, 0, 0, 0)
    for slot in range(SLOTS):
        assert steps.step()["walk"] == slot
        seen = steps.step(s_missing=SOURCE, s_final=slot != needed)
        assert seen["aborts"] == seen["ends"] == (slot == needed)
        if slot == needed:
            assert (seen["end_status"], seen["end_bits"]) == (STATUS["ABORTED"], SOURCE)
            return
    assert steps.step()["is_done"]


def test_the_last_one_leaves() -> None:
    _, seen = leave(left=CHILDREN & ~SOURCE)
    assert (seen["departs"], seen["empties"], seen["aborts"]) == (1, 1, 0)


def test_a_job_that_has_ended_is_left_without_a_walk() -> None:
    _, seen = leave(job_state=JOB["TOMBSTONE"], p_status=STATUS["ABORTED"])
    assert (seen["departs"], seen["aborts"], seen["is_done"]) == (1, 0, 1)


@pytest.mark.parametrize(("members", "bits", "above"), [(0b101, 0b101, 9), (0, SOURCE, 0)])
def test_a_child_leaves_with_a_reason(members: int, bits: int, above: int) -> None:
    packet = {"p_status": STATUS["PEER_LOST"], "p_node_bitmap": members, "p_seg": 9, "p_rank_bitmap": 0x0A000009}
    _, seen = leave(**packet)
    assert (seen["aborts"], seen["ends"], seen["end_status"]) == (1, 1, STATUS["PEER_LOST"])
    assert (seen["end_bits"], seen["end_above"], number(seen["end_lost"])) == (bits, above, 0x0A000009)


def test_a_leave_of_an_unknown_job_is_remembered() -> None:
    steps = membership(p_status=STATUS["ABORTED"], p_seg=4)
    steps.step(remembers=1)
    assert not steps.step()["remembers_end"]
    seen = steps.step(is_written=1)
    assert (seen["remembers_end"], seen["is_done"], seen["aborts"]) == (1, 1, 0)
    assert (seen["end_status"], seen["end_bits"], seen["end_above"]) == (STATUS["ABORTED"], 0, 4)
