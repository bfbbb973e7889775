"""A queue pair leaves its job, or is destroyed, with requests under way: each has one completion, in order, when the
device has answered. By the verbs interface, which does not clean up for the program."""

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest

from fanin.verbs import CQ, PD, WC, CollectiveQP, Context
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.abi import SQ_DEPTH, Status, WqeFlag
from tests.e2e.fabrics import Bench
from tests.e2e.members import placed, run_ranks
from tests.host.work_requests import BOUND_S, post_patiently, request_over

FEW, MANY = 100, SQ_DEPTH + 50  # more than the device takes out of the send ring
LONG = 1 << 18  # bytes: for both lanes, if there are two
RANKS = {"local": 2, "tree": 4, "ring": 4}
SLOTS = 64
FLUSHED = Status.FLUSHED


@pytest.fixture(scope="module", params=[1, 2], ids=["one-lane", "two-lanes"])
def running(bench: Bench, request: pytest.FixtureRequest) -> Running:
    return bench.up(Shape(2, 2, lanes=request.param))


class Rank:
    """A rank by the verbs interface."""

    def __init__(self, socket: str) -> None:
        self.context = Context(socket)
        self.cq = CQ(self.context)
        self.qp = CollectiveQP(PD(self.context), self.cq)

    def post(self, data: np.ndarray, count: int, flags: int = int(WqeFlag.SIGNALED)) -> None:
        """So many sums of all of `data`, numbered by wr_id."""
        for wr_id in range(count):
            address = data.ctypes.data
            post_patiently(self.qp, request_over(address, address, data.nbytes, wr_id=wr_id, flags=flags))

    def completions(self) -> list[WC]:
        """Those that have come."""
        found: list[WC] = []
        while batch := self.cq.poll(64)[1]:
            found += batch
        return found


@contextlib.contextmanager
def joined(running: Running, route: str) -> Iterator[list[Rank]]:
    job, sockets = placed(running, RANKS[route], route, SLOTS)
    with contextlib.ExitStack() as stack:
        ranks = [Rank(socket) for socket in sockets]
        for rank in ranks:
            stack.callback(rank.context.close)
        leases = run_ranks(len(ranks), lambda number: ranks[number].qp.join(job.membership(number), BOUND_S))
        assert all(lease.chunk == job.chunk for lease in leases)
        yield ranks


@pytest.mark.parametrize("route", sorted(RANKS))
def test_leaving_flushes_requests_that_wait_for_a_late_rank(running: Running, route: str) -> None:
    data = np.ones(1000, np.float32)
    with joined(running, route) as (first, *others):
        first.post(data, FEW)
        first.qp.leave()
        completions = first.completions()
        assert [(each.wr_id, each.status) for each in completions] == [(number, FLUSHED) for number in range(FEW)]
        assert {(each.mid, each.qp_num) for each in completions} == {(n, first.qp.qp_num) for n in range(FEW)}
        others[0].post(data, 1)
        assert others[0].cq.wait(BOUND_S)
        assert [each.status for each in others[0].completions()] == [Status.ABORTED]
        first.qp.close()
        assert first.completions() == []


@pytest.mark.parametrize("end", ["leave", "close"])
def test_requests_not_yet_fetched_are_flushed(running: Running, end: str) -> None:
    """Long ones, of which each lane has a part; more than fit into the device."""
    with joined(running, "local") as (first, _):
        first.post(np.ones(LONG, np.uint8).view(np.float32), MANY)
        getattr(first.qp, end)()
        assert [(each.wr_id, each.status) for each in first.completions()] == [(n, FLUSHED) for n in range(MANY)]


@pytest.mark.parametrize("flags", [0, int(WqeFlag.FENCE | WqeFlag.SIGNALED)], ids=["unsignaled", "fenced"])
def test_unsignaled_and_fenced_requests_are_flushed(running: Running, flags: int) -> None:
    """An unsignaled request reports its failure; a fenced one has not been started."""
    with joined(running, "local") as (first, _):
        first.post(np.ones(1000, np.float32), FEW, flags)
        first.qp.leave()
        assert [(each.wr_id, each.status) for each in first.completions()] == [(n, FLUSHED) for n in range(FEW)]


def test_complete_requests_are_not_flushed(running: Running) -> None:
    data = [np.ones(1000, np.float32) for _ in range(2)]
    with joined(running, "local") as ranks:
        for rank, mine in zip(ranks, data, strict=True):
            rank.post(mine, 1)
        assert all(rank.cq.wait(BOUND_S) for rank in ranks)
        ranks[0].post(data[0], 2)
        ranks[0].qp.leave()
        statuses = [(each.wr_id, each.status) for each in ranks[0].completions()]
        assert statuses == [(0, Status.SUCCESS), (0, FLUSHED), (1, FLUSHED)]
        assert data[0].tolist() == [2.0] * 1000
