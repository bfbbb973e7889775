"""Short data of one rank reach the ranks of other nodes before all have called, between real devices (SPEC.md, 7.5)."""

import numpy as np
import pytest

from fanin import errors
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import BOUND_S, Bench, assert_released
from tests.e2e.members import errors_of, job, run_ranks

MESSAGES = 30  # of 4 KiB: the lead that a sender may have over the slowest rank
SHAPES = {"a switch": Shape(4, 1), "two levels": Shape(4, 1, fanout=(2, 2)), "two ranks on each node": Shape(2, 2)}
ROOT, LATE, RANKS = 0, 3, 4


@pytest.fixture(scope="module", params=SHAPES)
def running(bench: Bench, request: pytest.FixtureRequest) -> Running:
    return bench.up(SHAPES[request.param])


def bring(member, count: int) -> None:
    array = np.zeros(count)
    for message in range(MESSAGES):
        array[:] = message
        member.broadcast(array, root=ROOT)


def receive(member, count: int) -> bool:
    return all(np.all(member.broadcast(np.zeros(count), root=ROOT) == message) for message in range(MESSAGES))


@pytest.mark.parametrize("count", [1, 512])
def test_receivers_do_not_wait_for_a_late_rank(running: Running, count: int) -> None:
    with job(running, RANKS, "tree", slots=256) as members:
        bring(members[ROOT], count)
        early = [rank for rank in range(RANKS) if rank not in (ROOT, LATE)]
        assert run_ranks(len(early), lambda index: receive(members[early[index]], count), BOUND_S) == [True, True]
        with pytest.raises(errors.Timeout):
            members[ROOT].flush(0.05)
        assert receive(members[LATE], count)
        members[ROOT].flush(BOUND_S)
    assert_released(running)


@pytest.mark.parametrize("root", range(RANKS))
def test_receivers_that_have_called_first_have_the_data_at_once(running: Running, root: int) -> None:
    """Receivers wait when the data come; one rank calls only when the others have all of them."""
    late = (root - 1) % RANKS
    early = [rank for rank in range(RANKS) if rank not in (root, late)]
    with job(running, RANKS, "tree", slots=256) as members:
        for message in range(MESSAGES):
            values = np.full(3, message, "<f4")
            calls = [members[rank].ibroadcast(np.zeros(3, "<f4"), root=root) for rank in early]
            members[root].broadcast(values, root=root)
            for call in calls:
                assert np.array_equal(call.wait(BOUND_S), values)
        for message in range(MESSAGES):
            assert members[late].broadcast(np.zeros(3, "<f4"), root=root)[0] == message
        members[root].flush(BOUND_S)
    assert_released(running)


def test_the_next_call_tells_of_a_rank_that_never_came(running: Running) -> None:
    with job(running, RANKS, "tree", slots=256) as members:
        bring(members[ROOT], 1)
        others = [member for rank, member in enumerate(members) if rank != LATE]
        assert receive(members[1], 1)
        assert receive(members[2], 1)
        members[LATE].abort()
        outcomes = run_ranks(len(others), lambda index: others[index].allreduce(np.zeros(1)), BOUND_S)
        assert errors_of(outcomes) == ["PeerLost"] * len(others)
