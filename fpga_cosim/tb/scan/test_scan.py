"""A scan, clock by clock: which jobs end, which children get a KEEPALIVE, and how time is measured."""

import pytest

from fpga_cosim.tb.steps import JOB, OPCODE, Steps
from fpga_cosim.tb.verilated import Module

SECOND = 1_000_000  # microseconds
ONE_JOB = {"JOBS": 1}
CHILDREN = 0b1011


def begin(**inputs: int) -> Steps:
    """A scan of two jobs; the inputs are those of each."""
    job = {"job_state": JOB["ACTIVE"], "mask": CHILDREN, "joined": CHILDREN} | inputs
    steps = Steps(Module("scan", ONE_JOB), **job)
    steps.step(starts=1)
    return steps


def walk(steps: Steps, silent: int = 0, due: int = 0) -> None:
    """Walk through the children: some were silent too long, some were sent nothing for long."""
    seen = steps.step()
    assert (seen["loads"], seen["bits"]) == (1, CHILDREN)
    for bit in (0, 1, 3):
        assert steps.step(is_walked=0)["looks"]
        times = {"silence": 6 * SECOND * (silent >> bit & 1), "since_sent": SECOND * (due >> bit & 1)}
        assert steps.step(own_bit=bit, child_address=100 + bit, **times)["skips"]
    steps.step(is_walked=1)


def test_it_is_due_when_its_time_has_come() -> None:
    steps = Steps(Module("scan", ONE_JOB), job=1)  # the last one
    steps.step(now_us=0, starts=1)
    assert [steps.trace("is_due", 2, now_us=us)[1] for us in (0, 49_999, 50_000)] == [0, 0, 1]
    assert not steps.step(now_us=50_000)["is_quiet"]
    steps.step(now_us=50_000, starts=1)
    assert steps.trace("is_due", 2, now_us=50_000) == [0, 0]


def test_only_time_in_which_the_engine_works_counts() -> None:
    steps = Steps(Module("scan", ONE_JOB))

    def lived(us: int, clocks: int = 2) -> int:
        return steps.trace("lived_us", clocks, now_us=us, engine_is_idle=1)[-1]

    first = lived(0)
    assert lived(1000) - first == 1000
    assert lived(9 * SECOND) - first == 1000  # it had no clock meanwhile


@pytest.mark.parametrize("state", ["FREE", "TOMBSTONE", "REMEMBERED"])
def test_a_job_that_has_no_children(state: str) -> None:
    steps = begin(job_state=JOB[state])
    assert steps.step()["bits"] == 0
    seen = [steps.step(is_walked=1) for _ in range(4 if state != "FREE" else 1)]
    assert [int(each["opcode"]) for each in seen] == [0] * len(seen)
    assert seen[-1]["to_next"]


def test_all_jobs_are_gone_through() -> None:
    steps = begin(job_state=JOB["FREE"])
    steps.step()
    assert [int(steps.step(job=0)[name]) for name in ("to_next",)] == [1]
    steps.step()
    seen = steps.step(job=1)
    assert (seen["to_next"], seen["is_done"]) == (1, 1)
    assert not steps.step(job=1)["to_next"]


@pytest.mark.parametrize(("silent", "address"), [(0b0010, 101), (0b1010, 0)])
def test_a_silent_child_ends_the_job(silent: int, address: int) -> None:
    """The address is that of a single silent child."""
    steps = begin()
    walk(steps, silent=silent)
    seen = steps.step()
    assert (seen["aborts"], seen["ages"], seen["end_bits"], seen["end_lost"]) == (1, 0, silent, address)
    assert steps.trace("to_next", 3) == [0, 0, 0]
    steps.step(job_has_ended=1)
    assert steps.step()["to_next"]


def test_a_job_that_is_too_old_is_freed() -> None:
    steps = begin(job_is_aged=1)
    walk(steps, silent=0b1)
    seen = steps.step()
    assert (seen["ages"], seen["aborts"]) == (1, 0)
    assert steps.step(job_has_ended=1)["is_aged"]
    assert steps.step()["to_next"]


def test_children_that_were_sent_nothing() -> None:
    steps = begin()
    walk(steps, due=0b1001)
    steps.step()
    seen = steps.step()
    assert (seen["opcode"], seen["bits"], seen["to_group"]) == (OPCODE["KEEPALIVE"], 0b1001, 0)
    assert not steps.step()["to_next"]
    steps.step(is_written=1)
    assert steps.step()["to_next"]


def test_an_invitation_to_the_group() -> None:
    steps = begin(may_invite=1)
    walk(steps)
    steps.step()
    seen = steps.step()
    assert (seen["invites"], seen["opcode"], seen["bits"], seen["to_group"]) == (1, OPCODE["KEEPALIVE"], CHILDREN, 1)
    steps.step(is_written=1)
    assert steps.step()["opcode"] == 0  # none is due
    assert steps.step()["to_next"]
