"""A rank is missing. Joins and requests with a time-out name it in their error; others wait."""

import time
from typing import Any

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import BOUND_S, Bench, assert_released
from tests.e2e.members import describe, errors_of, job, run_ranks, socket_of

NODES, RANKS = 3, 6
LOCAL_RANKS = RANKS // NODES
SHORT_S = 2.0  # by then all have begun, even on a busy machine
ONES = np.ones(10_000, "f4")
SILENT = [("local", 0), ("local", 1), ("tree", 0), ("tree", 3), ("tree", 5), ("ring", 0), ("ring", 3), ("ring", 5)]


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, LOCAL_RANKS))


def size_of(route: str) -> int:
    return LOCAL_RANKS if route == "local" else RANKS


def node_of(rank: int) -> int:
    return rank // LOCAL_RANKS


@pytest.mark.parametrize(("route", "silent"), SILENT)
def test_rank_that_never_joins_is_named(running: Running, route: str, silent: int) -> None:
    """By itself, or with its node if another node gave up first."""
    size = size_of(route)
    placement, description = describe(running, size, route)

    def act(rank: int) -> Any:
        if rank == silent:
            return None
        return Communicator(description, rank, socket_of(running, placement, rank), timeout=SHORT_S)

    outcomes = run_ranks(size, act)
    others = [rank for rank in range(size) if rank != silent]
    assert {errors_of(outcomes)[rank] for rank in others} == {"Timeout"}
    for rank in others:
        named = outcomes[rank].missing_ranks
        assert "; missing: rank " in str(outcomes[rank]) or "; missing on: node 127" in str(outcomes[rank])
        if route == "ring":  # a node only knows the one before it, which may itself wait
            assert named
        else:
            assert silent in named
            assert {node_of(missing) for missing in named} == {node_of(silent)}
    assert_released(running)


@pytest.mark.parametrize(("route", "silent"), SILENT)
def test_rank_that_does_not_post_is_named(running: Running, route: str, silent: int) -> None:
    size = size_of(route)
    with job(running, size, route) as members:

        def act(rank: int) -> Any:
            return None if rank == silent else members[rank].allreduce(ONES, timeout=SHORT_S)

        outcomes = run_ranks(size, act)
        others = [rank for rank in range(size) if rank != silent]
        assert {errors_of(outcomes)[rank] for rank in others} == {"Timeout"}
        named = {rank for other in others for rank in outcomes[other].missing_ranks}
        assert silent in named
        for rank in others:
            assert rank not in outcomes[rank].missing_ranks
            if node_of(rank) == node_of(silent):
                assert outcomes[rank].missing_ranks == (silent,)
                assert f"; missing: rank {silent} (node" in str(outcomes[rank])
            else:
                assert "; missing on: node 127" in str(outcomes[rank])
        if route != "ring":
            assert all(node_of(rank) == node_of(silent) for rank in named)
        # The job has ended, which the silent rank learns when it comes.
        with pytest.raises(errors.Timeout, match="the others waited for this rank") as caught:
            members[silent].allreduce(ONES, timeout=BOUND_S)
        assert caught.value.missing_ranks == ()
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring", "local"])
def test_without_a_time_out_a_late_rank_is_waited_for(running: Running, route: str) -> None:
    size = size_of(route)
    with job(running, size, route) as members:

        def act(rank: int) -> float:
            if rank == size - 1:
                time.sleep(2.5)  # longer than until probes and keep-alives
            return float(members[rank].allreduce(ONES).max())

        assert run_ranks(size, act) == [size] * size


@pytest.mark.parametrize("route", ["tree", "ring", "local"])
def test_time_out_that_is_long_enough_does_nothing(running: Running, route: str) -> None:
    size = size_of(route)
    with job(running, size, route) as members:
        for _ in range(3):
            outcomes = run_ranks(size, lambda rank: members[rank].allreduce(ONES, timeout=BOUND_S)[0])
            assert outcomes == [size] * size


@pytest.mark.parametrize("route", ["tree", "ring", "local"])
def test_rank_that_leaves_while_others_wait(running: Running, route: str) -> None:
    size = size_of(route)
    with job(running, size, route) as members:
        requests = [member.iallreduce(ONES) for member in members[1:]]
        members[0].close()
        outcomes = run_ranks(size - 1, lambda rank: requests[rank].wait(BOUND_S))
        assert errors_of(outcomes) == ["Aborted"] * (size - 1)
        assert 0 in {rank for outcome in outcomes for rank in outcome.missing_ranks}
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring", "local"])
def test_rank_whose_block_ends_with_an_exception(running: Running, route: str) -> None:
    size = size_of(route)
    with job(running, size, route) as members:
        requests = [member.iallreduce(ONES) for member in members[1:]]
        with pytest.raises(ZeroDivisionError), members[0]:
            _ = 1 // 0
        outcomes = run_ranks(size - 1, lambda rank: requests[rank].wait(BOUND_S))
        assert errors_of(outcomes) == ["PeerLost"] * (size - 1)
        assert 0 in {rank for outcome in outcomes for rank in outcome.missing_ranks}
    assert_released(running)
