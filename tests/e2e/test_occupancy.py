"""A message far larger than the lease: no device ever holds more segments than it leased, or than its window."""

from typing import Any

import numpy as np
import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench, Statuses, assert_released, counter, statuses
from tests.e2e.members import job, run_ranks
from tests.waiting import BOUND_S

NODES, RANKS = 4, 4
ELEMENTS = 16 << 20  # of f32: 64 MiB
SLOTS = 256


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, RANKS // NODES))


def jobs_of(found: Statuses, jid: int) -> dict[str, dict[str, Any]]:
    """The job's record on every device that has one."""
    return {name: one for name, status in found.items() for one in status["jobs"] if one["jid"] == jid}


def reduce(running: Running, route: str, slots: int, elements: int) -> tuple[dict[str, dict[str, Any]], Statuses]:
    """Allreduce of ones by all ranks; the job's record on every device afterwards, and all statuses."""
    with job(running, RANKS, route, slots=slots) as members:

        def act(rank: int) -> bool:
            array = members[rank].alloc(elements)
            array[:] = 1
            return bool((members[rank].allreduce(array, out=array) == RANKS).all())

        assert run_ranks(RANKS, act) == [True] * RANKS
        found = statuses(running)
        return jobs_of(found, members[0].job.jid), found


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_64_mib_never_occupy_more_than_the_lease(running: Running, route: str) -> None:
    jobs, found = reduce(running, route, SLOTS, ELEMENTS)
    assert len(jobs) == (NODES + 1 if route == "tree" else NODES)
    for name, record in jobs.items():
        assert record["slots"] == SLOTS
        assert record["window"] <= SLOTS // 2
        assert 0 < record["slots_high_water"] <= SLOTS, name
        assert found[name]["slots"]["high_water"] <= SLOTS
    # A NIC of a tree holds only segments in flight; in a ring also those of a node that is ahead.
    for nic in running.fabric.nics if route == "tree" else ():
        assert jobs[nic.name]["slots_high_water"] <= jobs[nic.name]["window"]


@pytest.mark.parametrize("slots", [8, 64])
@pytest.mark.parametrize("route", ["tree", "ring"])
def test_a_small_lease_is_granted_used_and_not_exceeded(running: Running, route: str, slots: int) -> None:
    jobs, _ = reduce(running, route, slots, 1 << 18)
    for record in jobs.values():
        assert record["slots"] == slots
        assert 0 < record["slots_high_water"] <= slots


def test_jobs_at_the_same_time_lease_apart_from_each_other(running: Running) -> None:
    with job(running, RANKS, "tree", slots=64) as first, job(running, RANKS, "ring", slots=128) as second:
        assert {status["slots"]["leased"] for status in statuses(running).values()} == {192, 64}

        def act(rank: int) -> bool:
            requests = [members[rank].iallreduce(np.full(100_000, rank, "i4")) for members in (first, second)]
            return all((request.wait(BOUND_S) == sum(range(RANKS))).all() for request in requests)

        assert run_ranks(RANKS, act) == [True] * RANKS
        assert max(status["slots"]["high_water"] for status in statuses(running).values()) <= max(SLOTS, 192)
    assert_released(running)


def test_nothing_was_asked_for_or_dropped(running: Running) -> None:
    found = statuses(running)
    assert counter(found, "resent") == 0
    assert counter(found, "tx_NEED") == 0
