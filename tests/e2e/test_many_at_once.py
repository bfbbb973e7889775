"""Many operations, overlapping groups and persistent requests are in flight on real devices at once."""

import numpy as np
import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import BOUND_S, Bench, assert_released
from tests.e2e.members import job, run_ranks

NODES, RANKS = 4, 8
ELEMENTS = 3000
OUTSTANDING = 200


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, RANKS // NODES))


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_two_hundred_operations_of_all_kinds_under_way(running: Running, route: str) -> None:
    with job(running, RANKS, route) as members:

        def act(rank: int) -> bool:
            one, mine = members[rank], np.full(ELEMENTS, rank, "i4")
            pending = []
            for number in range(OUTSTANDING // 4):
                pending.append((one.iallreduce(mine + number), sum(range(RANKS)) + RANKS * number))
                pending.append((one.ibroadcast(mine.copy(), root=number % RANKS), number % RANKS))
                pending.append((one.ireduce_scatter(np.full(RANKS * 16, number, "i4")), RANKS * number))
                pending.append((one.iallgather(np.full(4, 1, "i4")), 1))
            return all((request.wait(BOUND_S) == value).all() for request, value in reversed(pending))

        assert run_ranks(RANKS, act) == [True] * RANKS
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_persistent_requests_started_in_another_order_on_each_rank(running: Running, route: str) -> None:
    with job(running, RANKS, route) as members:

        def act(rank: int) -> list[float]:
            arrays = [np.full(ELEMENTS, number + rank, "f4") for number in range(3)]
            requests = [members[rank].allreduce_init(array) for array in arrays]
            for turn in range(4):
                for number in np.random.default_rng([rank, turn]).permutation(3):
                    requests[number].start()
                sums = [float(request.wait(BOUND_S)[-1]) for request in requests]
            return sums

        total = float(sum(range(RANKS)))
        assert run_ranks(RANKS, act) == [[total + RANKS * number for number in range(3)]] * RANKS
    assert_released(running)


def test_groups_that_overlap_used_in_opposite_orders(running: Running) -> None:
    with job(running, RANKS, "tree") as members:

        def act(rank: int) -> tuple[int, int]:
            halves = members[rank].split(rank // 4)
            pairs = members[rank].split(rank % 2)
            assert halves is not None
            assert pairs is not None
            groups = (halves, pairs) if rank % 2 else (pairs, halves)
            pending = {group: group.iallreduce(np.full(50_000, rank, "i8")) for group in groups}
            sums = int(pending[halves].wait(BOUND_S)[0]), int(pending[pairs].wait(BOUND_S)[0])
            halves.close()
            pairs.close()
            return sums

        expected = [(sum(range(rank // 4 * 4, rank // 4 * 4 + 4)), sum(range(rank % 2, RANKS, 2))) for rank in range(8)]
        assert run_ranks(RANKS, act) == expected
    assert_released(running)
