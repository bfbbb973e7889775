"""Packets are lost on the links. Results stay right, and devices ask before they retransmit."""

import shutil

import numpy as np
import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import cut_super_packets, loss, lost
from tests.e2e.fabrics import Bench, Statuses, assert_released, counter, statuses, undisturbed
from tests.e2e.members import job, run_ranks
from tests.waiting import BOUND_S

NODES, RANKS = 3, 6
ELEMENTS = 1 << 20  # of i32: 1024 segments
BROADCASTS, ROOT = 300, 2
PER_MILLE = 15
LOSSES = ((10, ELEMENTS), (50, ELEMENTS), (200, ELEMENTS // 8))  # per mille, elements


@pytest.fixture(scope="module")
def running(bench: Bench, namespaces_allowed: None) -> Running:
    found = bench.up(Shape(NODES, RANKS // NODES, netns=True))
    cut_super_packets(found.fabric)
    return found


@pytest.fixture(autouse=True)
def nftables(namespaces_allowed: None) -> None:
    """Skips where the kernel can not lose packets."""
    if shutil.which("nft") is None:
        pytest.skip("the program `nft` (nftables), to lose packets in the kernel")


def reduce(running: Running, route: str, elements: int, repeat: int = 1) -> None:
    with job(running, RANKS, route) as members:

        def act(rank: int) -> bool:
            array, result = members[rank].alloc(elements, np.int32), members[rank].alloc(elements, np.int32)
            array[:] = np.arange(elements) * (rank + 1)
            expected = np.arange(elements, dtype="i4") * sum(range(1, RANKS + 1))
            for _ in range(repeat):
                result[:] = -1
                members[rank].allreduce(array, out=result, timeout=BOUND_S)
                if not np.array_equal(result, expected):
                    return False
            return True

        assert run_ranks(RANKS, act, BOUND_S) == [True] * RANKS


@pytest.mark.parametrize(("per_mille", "elements"), LOSSES)
@pytest.mark.parametrize("route", ["tree", "ring"])
def test_results_are_right_where_packets_are_lost(running: Running, route: str, per_mille: int, elements: int) -> None:
    before = statuses(running)
    with loss(running.fabric, per_mille):
        reduce(running, route, elements)
        after = statuses(running)
        assert lost(running.fabric) > 0
    assert counter(after, "tx_PROBE") > counter(before, "tx_PROBE")
    assert counter(after, "tx_ABORT") == counter(before, "tx_ABORT")
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_many_small_messages_where_packets_are_lost(running: Running, route: str) -> None:
    with loss(running.fabric, PER_MILLE):
        reduce(running, route, 3, repeat=60)
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_broadcasts_where_packets_are_lost(running: Running, route: str) -> None:
    """In a tree the data go ahead of the result: either may be lost."""
    before = statuses(running)
    with loss(running.fabric, 100), job(running, RANKS, route, slots=64) as members:

        def act(rank: int) -> bool:
            array = np.zeros(3)
            for message in range(BROADCASTS):
                array[:] = message if rank == ROOT else -1
                members[rank].broadcast(array, root=ROOT)
                if not np.all(array == message):
                    return False
            members[rank].flush(BOUND_S)
            return True

        assert run_ranks(RANKS, act, BOUND_S) == [True] * RANKS
        assert lost(running.fabric) > 0
    assert counter(statuses(running), "tx_PROBE") > counter(before, "tx_PROBE")
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_jobs_form_and_end_where_a_third_of_all_packets_is_lost(running: Running, route: str) -> None:
    """CONFIG, LEAVE and their answers are repeated."""
    with loss(running.fabric, 333):
        for _ in range(3):
            with job(running, RANKS, route):
                pass
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_links_that_lose_nothing_afterwards_need_no_probe(running: Running, route: str) -> None:
    def measure() -> tuple[Statuses, Statuses]:
        before = statuses(running)
        reduce(running, route, ELEMENTS)
        return before, statuses(running)

    before, after = undisturbed(measure)
    assert counter(after, "resent") == counter(before, "resent")
