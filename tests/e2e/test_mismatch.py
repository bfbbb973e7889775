"""Ranks call different collectives. Every rank gets OP_MISMATCH, on every route, whichever rank differs."""

from typing import Any

import numpy as np
import pytest

from fanin import Communicator, FaninError, errors
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import BOUND_S, Bench, assert_released
from tests.e2e.members import errors_of, job, run_ranks

NODES, RANKS = 3, 6
LOCAL_RANKS = RANKS // NODES
RIGHT: dict[str, Any] = {"array": np.ones(3000, "f4")}
WRONG: dict[str, dict[str, Any]] = {
    "operation": {**RIGHT, "op": "max"},
    "type": {"array": np.ones(3000, "i4")},
    "length": {"array": np.ones(2999, "f4")},
    "shorter-by-segments": {"array": np.ones(1024, "f4")},
    "longer-by-segments": {"array": np.ones(5 * 1024, "f4")},
    "longer-than-the-window": {"array": np.ones(1 << 20, "f4")},
}
ODD = {
    "one-rank": [1],  # beside rank 0 on its node
    "one-node": [2, 3],
    "last-node": [4, 5],
}
CASES = [("local", "one-rank"), *((route, odd) for route in ("tree", "ring") for odd in ODD)]


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, LOCAL_RANKS))


def call_twice(members: list[Communicator], odd: list[int], wrong: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The odd ranks call `wrong`, the others RIGHT; then all call RIGHT. Both outcomes."""

    def act(rank: int) -> list[Any]:
        outcomes = []
        requests = [members[rank].iallreduce(**call) for call in (wrong if rank in odd else RIGHT, RIGHT)]
        for request in requests:
            try:
                outcomes.append(request.wait(BOUND_S))
            except FaninError as error:
                outcomes.append(error)
        return outcomes

    first, second = zip(*run_ranks(len(members), act), strict=True)
    return list(first), list(second)


@pytest.mark.parametrize(("route", "odd"), CASES)
@pytest.mark.parametrize("wrong", WRONG)
def test_mismatch_is_named_on_every_rank(running: Running, route: str, odd: str, wrong: str) -> None:
    """Also of messages that begin alike: their numbers differ from the first segment on."""
    size = LOCAL_RANKS if route == "local" else RANKS
    with job(running, size, route) as members:
        first, second = call_twice(members, ODD[odd], WRONG[wrong])
    assert errors_of(first) == errors_of(second) == ["OpMismatch"] * size
    assert_released(running)


def equal_parts(size: int) -> list[int]:
    return [RANKS // size] * size


DIFFERENT = {  # not compared by devices: the call of rank 1, and that of all others
    "root of reduce": lambda odd, size: ("reduce", {"root": 1 if odd else 0}),
    "root of gather": lambda odd, size: ("gather", {"root": 1 if odd else 0}),
    "counts": lambda odd, size: (
        "reduce_scatter",
        {"counts": [RANKS, *[0] * (size - 1)] if odd else equal_parts(size)},
    ),
    "type of what is moved": lambda odd, size: ("allgather", {"array": np.zeros(RANKS, "i8" if odd else "f8")}),
    "collective": lambda odd, size: ("gather" if odd else "allgather", {}),
}


@pytest.mark.parametrize("route", ["tree", "ring", "local"])
@pytest.mark.parametrize("difference", DIFFERENT)
def test_arguments_known_only_to_hosts_are_compared(running: Running, route: str, difference: str) -> None:
    size = LOCAL_RANKS if route == "local" else RANKS
    with job(running, size, route) as members:

        def act(rank: int) -> Any:
            name, arguments = DIFFERENT[difference](rank == 1, size)
            try:
                return getattr(members[rank], name)(**{"array": np.zeros(RANKS)} | arguments, timeout=BOUND_S)
            except FaninError as error:
                return error

        assert errors_of(run_ranks(size, act)) == ["OpMismatch"] * size
    assert_released(running)


def test_requests_after_a_mismatch_say_where_the_job_ended(running: Running) -> None:
    with job(running, RANKS, "tree") as members:
        first, second = call_twice(members, [1], WRONG["operation"])
    assert all("message 0 of job" in str(outcome) for outcome in first)
    assert all("was not done: job" in str(outcome) for outcome in second)
    assert all("ended at message 0 (allreduce); noticed at: " in str(outcome) for outcome in second)


def test_a_duplicate_of_a_job_that_has_ended_goes_on(running: Running) -> None:
    with job(running, RANKS, "tree") as members:
        call_twice(members, [1], WRONG["operation"])

        def act(rank: int) -> float:
            with pytest.raises(errors.OpMismatch):
                members[rank].split(0)
            assert members[rank].status()["rank"] == rank
            with members[rank].dup() as again:
                return float(again.allreduce(again.alloc(10) + 1)[0])

        assert run_ranks(RANKS, act) == [RANKS] * RANKS
    assert_released(running)


def test_a_mismatch_later_leaves_the_results_before_it(running: Running) -> None:
    with job(running, RANKS, "tree") as members:

        def act(rank: int) -> list[str]:
            calls = [RIGHT, RIGHT, WRONG["operation"] if rank == 5 else RIGHT]
            outcomes = []
            for call in calls:
                try:
                    assert (members[rank].allreduce(**call, timeout=BOUND_S) == RANKS).all()
                    outcomes.append("right")
                except errors.OpMismatch:
                    outcomes.append("mismatch")
            return outcomes

        assert run_ranks(RANKS, act) == [["right", "right", "mismatch"]] * RANKS


@pytest.mark.parametrize("route", ["tree", "ring", "local"])
@pytest.mark.parametrize("name", ["allreduce", "reduce_scatter", "broadcast", "allgather"])
def test_zero_elements_on_one_rank_only(running: Running, route: str, name: str) -> None:
    """The others learn it at once, though the odd rank does not wait, and makes no further call before."""
    size = LOCAL_RANKS if route == "local" else RANKS
    with job(running, size, route) as members:
        odd = members[1]
        getattr(odd, name)(np.ones(0, "f4"))

        def act(rank: int) -> Any:
            return None if rank == 1 else getattr(members[rank], name)(np.ones(RANKS, "f4"), timeout=BOUND_S)

        outcomes = run_ranks(size, act)
        assert errors_of([outcome for rank, outcome in enumerate(outcomes) if rank != 1]) == ["OpMismatch"] * (size - 1)
        with pytest.raises(errors.OpMismatch, match="ended at message 0; noticed at: "):
            odd.allreduce(**RIGHT)
    assert_released(running)


def test_zero_elements_on_all_ranks_but_one(running: Running) -> None:
    with job(running, RANKS, "tree") as members:
        calls = [{"array": np.ones(5 if rank == 4 else 0)} for rank in range(RANKS)]
        outcomes = run_ranks(RANKS, lambda rank: members[rank].allreduce(**calls[rank], timeout=BOUND_S))
        assert errors_of(outcomes) == ["OpMismatch"] * RANKS


@pytest.mark.parametrize("route", ["tree", "ring", "local"])
def test_zero_elements_on_all_ranks(running: Running, route: str) -> None:
    """No rank waits for another, however many such calls it makes within its permitted lead."""
    size = LOCAL_RANKS if route == "local" else RANKS
    with job(running, size, route) as members:

        def act(rank: int) -> float:
            for _ in range(100):
                assert members[rank].allreduce(np.ones(0)).size == 0
                assert members[rank].allgatherv(np.ones(0), counts=[0] * size).size == 0
            assert members[rank].gatherv(np.ones(rank % 2)) is not None or rank
            return float(members[rank].allreduce(np.ones(1))[0])

        for rank in range(size):  # one after the other
            for _ in range(100):
                members[rank].allreduce(np.ones(0))
        assert run_ranks(size, act) == [size] * size
    assert_released(running)
