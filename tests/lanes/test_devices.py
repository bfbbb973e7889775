"""Devices of two lanes, over every route: results, order, failures, and clean-up."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from fanin import Communicator, Job, errors
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import BOUND_S, assert_released, statuses
from tests.e2e.members import job, placed, run_ranks
from tests.fabric.fixtures import ignore, own_state_folder

LANES, NODES, RANKS_PER_NODE = 2, 2, 2
RANKS = {"tree": 4, "ring": 4, "local": 2}
ROUTES = sorted(RANKS)
SLOTS = 64
LONG = 1 << 18  # elements of f32: 1 MiB, for both lanes
IDLE_SHARE = 0.05  # of a core


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """One fabric for all tests of this file, in its own state folder."""
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        yield lifecycle.up(Plan("lanes", Shape(NODES, RANKS_PER_NODE, lanes=LANES)), ignore)


@pytest.fixture(autouse=True)
def nothing_is_left(running: Running) -> Iterator[None]:
    """After each test no lane of any device has a job or slot of it."""
    yield
    assert_released(running)
    for status in statuses(running).values():
        assert status["counters"]["drop_lane"] == status["counters"]["cq_overflows"] == 0


def joined(running: Running, route: str) -> AbstractContextManager[list[Communicator]]:
    """The communicators of a new job with all ranks of the route."""
    return job(running, RANKS[route], route, slots=SLOTS)


def data(rank: int, count: int) -> np.ndarray:
    """Whole numbers: every order of adding gives the same bits."""
    return np.random.default_rng([rank, count]).integers(-1000, 1000, count).astype(np.float32)


@pytest.mark.parametrize("registered", [False, True], ids=["ordinary", "registered"])
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("count", [0, 1, 1024, 1025, 31 * 1024, 32 * 1024, LONG + 1])
def test_sum(running: Running, route: str, count: int, registered: bool) -> None:
    size = RANKS[route]
    expected = np.sum([data(rank, count) for rank in range(size)], axis=0, dtype=np.float32)
    with joined(running, route) as members:

        def act(rank: int) -> np.ndarray:
            mine = members[rank].alloc(count) if registered else np.zeros(count, np.float32)
            mine[:] = data(rank, count)
            return members[rank].allreduce(mine, timeout=BOUND_S)

        for result in run_ranks(size, act):
            assert np.array_equal(result, expected)


@pytest.mark.parametrize("route", ROUTES)
def test_large(running: Running, route: str) -> None:
    count = 4 << 20
    with joined(running, route) as members:
        arrays = [member.alloc(count, np.int32) for member in members]
        for rank, array in enumerate(arrays):
            array[:] = np.arange(count) + rank
        run_ranks(len(members), lambda rank: members[rank].allreduce(arrays[rank], arrays[rank], timeout=BOUND_S))
        expected = len(members) * np.arange(count, dtype=np.int32) + sum(range(len(members)))
        assert all(np.array_equal(array, expected) for array in arrays)


@pytest.mark.parametrize("route", ROUTES)
def test_many_outstanding_of_all_sizes(running: Running, route: str) -> None:
    counts = [1, LONG, 5, 40 * 1024, 0, 33 * 1024 + 7] * 6
    with joined(running, route) as members:

        def act(rank: int) -> list[np.ndarray]:
            requests = [members[rank].iallreduce(np.full(count, rank + 1, np.int64)) for count in counts]
            return [request.wait(BOUND_S) for request in requests]

        total = sum(range(len(members) + 1))
        for results in run_ranks(len(members), act):
            assert [len(result) for result in results] == counts
            assert all(np.all(result == total) for result in results)


def test_both_lanes_take_part(running: Running) -> None:
    before = [status["counters"]["segments"] for status in statuses(running).values()]
    with joined(running, "tree") as members:
        run_ranks(len(members), lambda rank: members[rank].allreduce(np.ones(LONG, np.float32), timeout=BOUND_S))
        for status, earlier in zip(statuses(running).values(), before, strict=True):
            (leased,) = status["jobs"]
            assert status["lanes"] == leased["lanes"] == LANES
            assert leased["slots"] == LANES * SLOTS
            # More were in use at once than one lane has: the high-water marks of both are added.
            assert SLOTS // 2 < leased["slots_high_water"] <= LANES * SLOTS
            assert status["counters"]["segments"] > earlier


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "counts", [(LONG, LONG + 1024), (LONG, 8), (8, LONG), (LONG, 33 * 1024)], ids=lambda pair: f"{pair[0]}-{pair[1]}"
)
def test_mismatch_ends_the_job_in_all_lanes(running: Running, route: str, counts: tuple[int, int]) -> None:
    """Also if only one of the two is long enough for both lanes."""
    with joined(running, route) as members:

        def act(rank: int) -> None:
            for _ in range(3):
                members[rank].allreduce(np.ones(counts[rank == 0], np.float32), timeout=BOUND_S)

        for outcome in run_ranks(len(members), act):
            assert isinstance(outcome, errors.OpMismatch)


@pytest.mark.parametrize("count", [8, LONG])
@pytest.mark.parametrize("route", ROUTES)
def test_deadline_names_the_missing(running: Running, route: str, count: int) -> None:
    with joined(running, route) as members:
        last = len(members) - 1

        def act(rank: int) -> None:
            if rank != last:
                members[rank].allreduce(np.ones(count, np.float32), timeout=2.0)  # all others have joined by then

        *outcomes, _ = run_ranks(len(members), act)
        assert all(isinstance(outcome, errors.Timeout) for outcome in outcomes)
        if route == "local":
            assert {outcome.missing_ranks for outcome in outcomes} == {(last,)}


@pytest.mark.parametrize("count", [8, LONG])
@pytest.mark.parametrize("route", ROUTES)
def test_rank_that_is_killed(running: Running, route: str, count: int) -> None:
    described, sockets = placed(running, RANKS[route], route, SLOTS)
    last = len(sockets) - 1
    program = (
        "import fanin, json, sys, time\n"
        f"member = fanin.Communicator(fanin.Job.from_dict(json.loads(sys.argv[1])), {last}, sys.argv[2])\n"
        "print('joined', flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, json.dumps(described.to_dict()), sockets[last]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as victim:

        def act(rank: int) -> None:
            with Communicator(described, rank, sockets[rank], timeout=BOUND_S) as member:
                request = member.iallreduce(np.ones(count, np.float32))
                if rank == 0:
                    assert victim.stdout is not None
                    assert victim.stdout.readline() == b"joined\n"
                    victim.send_signal(signal.SIGKILL)
                request.wait(BOUND_S)

        for outcome in run_ranks(last, act):
            assert isinstance(outcome, errors.PeerLost)
            if route == "local":
                assert outcome.missing_ranks == (last,)


def test_nodes_of_different_lanes_form_no_job(running: Running) -> None:
    """The lanes are a parameter of the job: a NIC that cuts messages differently is refused by name."""
    other = lifecycle.up(Plan("odd", Shape(1, 1, direct=True, lanes=1)), ignore)
    odd = other.fabric
    try:
        described, sockets = placed(running, 2, "ring", SLOTS)
        description = described.to_dict()
        description["nodes"][1]["address"] = odd.nics[0].address
        mixed = Job.from_dict(description)
        places = [sockets[0], str(other.state.socket(odd.nics[0].name))]
        outcomes = run_ranks(2, lambda rank: Communicator(mixed, rank, places[rank], timeout=BOUND_S))
        assert any(isinstance(outcome, errors.MembersMismatch) for outcome in outcomes)
        assert all(isinstance(outcome, errors.FaninError) for outcome in outcomes)
    finally:
        lifecycle.down("odd")


def test_idle_lanes_sleep(running: Running) -> None:
    def cpu_seconds() -> list[float]:
        ticks = []
        for status in statuses(running).values():
            fields = Path(f"/proc/{status['pid']}/stat").read_text().rpartition(")")[2].split()
            ticks.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
        return ticks

    with joined(running, "tree") as members:
        run_ranks(len(members), lambda rank: members[rank].allreduce(np.ones(LONG, np.float32), timeout=BOUND_S))
        before, seconds = cpu_seconds(), 2.0
        time.sleep(seconds)
        used = [after - earlier for after, earlier in zip(cpu_seconds(), before, strict=True)]
    assert max(used) < IDLE_SHARE * seconds


def test_bad_number_of_lanes_is_named() -> None:
    program = "from fanin_nic.daemon.main import nic; nic()"
    options = ["--name", "x", "--address", "127.0.0.1", "--socket", "/tmp/x", "--lanes", "3"]
    result = subprocess.run([sys.executable, "-c", program, *options], capture_output=True, text=True)
    assert result.returncode == 2
    assert "--lanes: 3 is not a power of two; use for example 2" in result.stderr
