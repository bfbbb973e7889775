"""A NIC or the switch is killed under several jobs at once. The right ranks get the error, and nothing stays held.

Silence is detected after 5 s, so each device dies once, and each test checks one job.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fanin import Communicator
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import kill_device
from tests.e2e.fabrics import Bench, assert_released
from tests.e2e.members import across, errors_of, job, run_ranks
from tests.waiting import BOUND_S

NODES, RANKS = 3, 6
LOCAL_RANKS = RANKS // NODES
LOST = (2, 3)  # ranks of nic1
ELEMENTS = 2 << 20  # of f32, of a busy job
JOBS = {"busy-tree": "tree", "busy-ring": "ring", "silent-tree": "tree", "silent-ring": "ring"}


@dataclass
class Aftermath:
    """Each rank's outcome in each job, by the job's name, and the fabric without its dead device."""

    running: Running
    outcomes: dict[str, list[Any]]


def reduce_until_it_fails(member: Communicator, elements: int) -> None:
    array = np.ones(elements, "f4")
    while True:
        member.allreduce(array, timeout=BOUND_S)


def deaths(running: Running, device: str, routes: Iterable[str]) -> Aftermath:
    """Kill `device` when all busy jobs have reduced once. Silent jobs make their first allreduce only then."""
    outcomes: dict[str, list[Any]] = {}
    names = [name for name, route in JOBS.items() if route in routes]
    with contextlib.ExitStack() as stack:
        jobs = {name: stack.enter_context(job(running, RANKS, JOBS[name], slots=64)) for name in names}
        busy = [members for name, members in jobs.items() if name.startswith("busy")]
        for members in busy:
            run_ranks(RANKS, lambda rank, members=members: members[rank].allreduce(np.ones(9)))
        for members in busy:
            for member in members:
                member.iallreduce(np.ones(ELEMENTS, "f4"))
        kill_device(running, device)
        everyone = [(name, rank) for name in jobs for rank in range(RANKS)]

        def act(index: int) -> None:
            name, rank = everyone[index]
            reduce_until_it_fails(jobs[name][rank], 9 if name.startswith("silent") else ELEMENTS)

        found = run_ranks(len(everyone), act, BOUND_S)
        for (name, _), outcome in zip(everyone, found, strict=True):
            outcomes.setdefault(name, []).append(outcome)
    return Aftermath(running, outcomes)


@pytest.fixture(scope="module")
def without_nic(bench: Bench) -> Aftermath:
    return deaths(bench.up(Shape(NODES, LOCAL_RANKS)), "nic1", ("tree", "ring"))


@pytest.fixture(scope="module")
def without_switch(bench: Bench) -> Aftermath:
    return deaths(bench.up(Shape(NODES, LOCAL_RANKS)), "switch", ("tree",))


@pytest.mark.parametrize("name", JOBS)
def test_killed_nic_is_a_lost_device_here_and_a_lost_peer_elsewhere(without_nic: Aftermath, name: str) -> None:
    for rank, error in enumerate(errors_of(without_nic.outcomes[name])):
        assert error == ("DeviceLost" if rank in LOST else "PeerLost"), rank


@pytest.mark.parametrize("name", JOBS)
def test_killed_nic_is_named_by_its_ranks(without_nic: Aftermath, name: str) -> None:
    for rank, outcome in enumerate(without_nic.outcomes[name]):
        if rank not in LOST:
            assert outcome.missing_ranks == LOST, f"rank {rank}: {outcome}"
            assert outcome.lost_device == without_nic.running.fabric.nics[1].address, f"rank {rank}: {outcome}"


def test_all_is_released_after_the_death_of_a_nic(without_nic: Aftermath) -> None:
    assert_released(without_nic.running)


def test_nodes_that_are_left_carry_new_jobs(without_nic: Aftermath) -> None:
    running = without_nic.running
    for route in ("tree", "ring"):
        description, sockets = across(running, (0, 2), route)
        members = run_ranks(2, lambda rank, d=description, s=sockets: Communicator(d, rank, s[rank], timeout=BOUND_S))
        results = run_ranks(2, lambda rank, m=members: m[rank].allreduce(np.ones(9), timeout=BOUND_S)[0])
        assert results == [2.0, 2.0]
        run_ranks(2, lambda rank, m=members: m[rank].close())


@pytest.mark.parametrize("name", [name for name, route in JOBS.items() if route == "tree"])
def test_killed_switch_is_a_lost_peer_to_all(without_switch: Aftermath, name: str) -> None:
    assert errors_of(without_switch.outcomes[name]) == ["PeerLost"] * RANKS


def test_rings_do_not_need_the_switch(without_switch: Aftermath) -> None:
    with job(without_switch.running, RANKS, "ring") as members:
        assert run_ranks(RANKS, lambda rank: members[rank].allreduce(np.ones(9))[0]) == [RANKS] * RANKS


def test_all_is_released_after_the_death_of_the_switch(without_switch: Aftermath) -> None:
    assert_released(without_switch.running)


def test_restarted_fabric_carries_new_jobs(bench: Bench, without_nic: Aftermath) -> None:
    fabric = without_nic.running.fabric
    with pytest.raises(ToolError, match="FABRIC_INCOMPLETE"):
        bench.build(fabric)
    lifecycle.down(fabric.name)
    again = bench.build(fabric)
    assert again.fresh
    with job(again, RANKS, "tree") as members:
        assert run_ranks(RANKS, lambda rank: members[rank].allreduce(np.ones(8))[0]) == [RANKS] * RANKS
