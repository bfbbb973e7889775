"""A job goes on without a lost member: the survivors agree on the remaining ranks, and form a new job."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin import Communicator, device_status, errors
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import frozen_device, kill_device
from tests.e2e.fabrics import Bench, assert_released, silent
from tests.e2e.members import across, errors_of, job, run_ranks
from tests.waiting import BOUND_S, DETECTION_S, eventually

ELEMENTS = 50_000
FLAT = Shape(3, 2, detection=DETECTION_S)


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(FLAT)


def lose(member: Communicator) -> errors.FaninError:
    while True:
        try:
            member.allreduce(np.ones(ELEMENTS), timeout=BOUND_S)
        except errors.PeerLost as error:
            return error


def shrunk(members: Sequence[Communicator], survivors: Sequence[int]) -> list[Any]:
    """Of each survivor: route and size of the new job, its rank there, and the sum of all old ranks; or its error."""

    def act(index: int) -> Any:
        member = members[survivors[index]]
        lose(member)
        with member.shrink() as left:
            total = left.allreduce(np.array(member.rank), timeout=BOUND_S).item()
            return left.job.chosen_route, left.size, left.rank, total

    return run_ranks(len(survivors), act, BOUND_S)


def expected(survivors: Sequence[int], route: str) -> list[Any]:
    return [(route, len(survivors), place, sum(survivors)) for place in range(len(survivors))]


def test_without_a_rank_but_with_its_neighbour(running: Running) -> None:
    survivors = [0, 1, 2, 4, 5]
    with job(running, 6, "tree") as members:
        members[3].abort()
        assert shrunk(members, survivors) == expected(survivors, "tree")
    assert_released(running)


def test_without_the_switch_it_is_a_ring(running: Running) -> None:
    with job(running, 6, "tree") as members:
        kill_device(running, "switch")
        assert shrunk(members, range(6)) == expected(range(6), "ring")
    lifecycle.restart(running.fabric.name, "switch", silent)
    assert_released(running)


def test_rank_of_a_stopped_nic_is_excluded(running: Running) -> None:
    survivors = [0, 1, 2, 3]
    with job(running, 6, "ring") as members:
        with frozen_device(running, "nic2"):
            assert shrunk(members, survivors) == expected(survivors, "ring")
        outcomes = run_ranks(2, lambda index: members[4 + index].allreduce(np.ones(ELEMENTS)), BOUND_S)
        assert set(errors_of(outcomes)) <= {"PeerLost", "DeviceLost"}
    assert_released(running)


@pytest.mark.parametrize(
    ("target", "survivors", "route"), [("nic0", [1, 2, 3], "tree"), ("switch-0", [0, 1, 2, 3], "ring")]
)
def test_below_two_levels_of_switches(bench: Bench, target: str, survivors: list[int], route: str) -> None:
    """Beyond the top switch a dead NIC is named with all that share its switch; these stay anyway."""
    running = bench.up(Shape(4, 1, fanout=(2, 2), detection=DETECTION_S))
    with job(running, 4, "tree") as members:
        kill_device(running, target)
        assert shrunk(members, survivors) == expected(survivors, route)
    assert_released(running)
    bench.down(running)


def test_a_second_loss(bench: Bench) -> None:
    running = bench.up(Shape(4, 1, detection=DETECTION_S))
    with job(running, 4, "tree") as members:
        kill_device(running, "nic0")
        run_ranks(3, lambda index: lose(members[1 + index]), BOUND_S)
        left = run_ranks(3, lambda index: members[1 + index].shrink(), BOUND_S)
        kill_device(running, "nic2")
        assert shrunk([members[0], left[0], left[1], left[2]], [1, 3]) == [("tree", 2, 0, 2), ("tree", 2, 1, 2)]
        run_ranks(3, lambda index: left[index].close(), BOUND_S)
    assert_released(running)


LATE = """
import sys
from fanin import Communicator, FaninError, Job
communicator = Communicator(Job.from_file(sys.argv[1]), 1, sys.argv[2])
try:
    communicator.barrier()
except FaninError as error:
    print(type(error).__name__, flush=True)
try:
    communicator.shrink(1)
except FaninError as error:
    print(type(error).__name__)
"""


def test_rank_that_is_stopped_while_it_reports(running: Running, tmp_path: Path) -> None:
    """The others go on without it: the registrar gives up the pair that both have joined. When the rank continues, it
    is too late for another registrar."""
    description, sockets = across(running, range(3), "ring")
    path = tmp_path / "job"
    path.write_text(description.to_text())
    line = [sys.executable, "-c", LATE, str(path), sockets[1]]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as late, ThreadPoolExecutor() as threads:
        try:
            lost = threads.submit(Communicator, description, 2, sockets[2], BOUND_S)
            with Communicator(description, 0, sockets[0], BOUND_S) as first:
                lost.result(BOUND_S).abort()
                assert lose(first).missing_ranks == (2,)
                assert late.stdout is not None
                assert late.stdout.readline() == "PeerLost\n"
                wait_for_a_pair(sockets[1])
                late.send_signal(signal.SIGSTOP)
                with first.shrink(2) as left:
                    late.send_signal(signal.SIGCONT)
                    assert late.communicate(timeout=BOUND_S)[0] == "Timeout\n"
                    assert left.size == 1
        finally:
            late.kill()
    assert_released(running)


def wait_for_a_pair(socket: str) -> None:
    """Until a job is being formed at a device."""
    eventually(
        lambda: [entry["state"] for entry in device_status(socket)["jobs"]],
        lambda states: {"joining", "configuring"} & {*states},
    )
