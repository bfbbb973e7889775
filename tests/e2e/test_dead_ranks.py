"""Ranks are killed during a transfer of 64 MiB. The others learn which, and everything is released."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fanin import Communicator, FaninError
from fanin.errors import PeerLost
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults import looping_rank
from tests.e2e import forking_rank
from tests.e2e.fabrics import BOUND_S, Bench, assert_released
from tests.e2e.members import describe, errors_of, run_ranks, socket_of

NODES, RANKS = 3, 6
LOCAL_RANKS = RANKS // NODES
ELEMENTS = 16 << 20  # of f32: 64 MiB


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, LOCAL_RANKS))


@contextlib.contextmanager
def process(job_file: Path, rank: int, socket: str, elements: int = ELEMENTS) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", looping_rank.__name__, str(job_file), str(rank), socket, str(elements)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as found:
        try:
            yield found
        finally:
            found.kill()


def expect(target: subprocess.Popen[str], line: str) -> None:
    assert target.stdout is not None
    assert target.stdout.readline() == f"{line}\n"


def loop(member: Communicator) -> None:
    """Reduce until it fails; the result before must have been right."""
    array = member.alloc(ELEMENTS)
    while True:
        array[:] = 1
        member.allreduce(array, out=array)
        assert array[0] == array[-1] == member.size


@pytest.mark.parametrize(("route", "target"), [("tree", 3), ("ring", 3), ("local", 1), ("tree", 0)])
def test_rank_that_is_killed_in_the_middle(running: Running, tmp_path: Path, route: str, target: int) -> None:
    size = LOCAL_RANKS if route == "local" else RANKS
    placement, description = describe(running, size, route)
    path = tmp_path / "job.txt"
    path.write_text(description.to_text())
    with process(path, target, socket_of(running, placement, target)) as child:

        def act(rank: int) -> Any:
            if rank == target:
                expect(child, "joined")
                expect(child, "looping")
                child.kill()
                return None
            member = Communicator(description, rank, socket_of(running, placement, rank), timeout=BOUND_S)
            try:
                loop(member)
            finally:
                member.close()

        outcomes = run_ranks(size, act, 2 * BOUND_S)
    others = [rank for rank in range(size) if rank != target]
    assert {errors_of(outcomes)[rank] for rank in others} == {"PeerLost"}
    for rank in others:
        assert_named(outcomes[rank], target, here=placement.node_of(rank) == placement.node_of(target))
    assert_released(running)


def test_child_of_a_killed_rank_does_not_stand_for_it(running: Running, tmp_path: Path) -> None:
    """It has a copy of the rank's socket, and lives on."""
    placement, description = describe(running, 2, "local")
    path = tmp_path / "job.txt"
    path.write_text(description.to_text())
    command = [sys.executable, "-m", forking_rank.__name__, str(path), "1", socket_of(running, placement, 1)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as rank,
        Communicator(description, 0, socket_of(running, placement, 0), timeout=BOUND_S) as member,
    ):
        member.barrier(timeout=BOUND_S)
        assert rank.stdout is not None
        child = int(rank.stdout.readline())
        rank.kill()
        try:
            with pytest.raises(PeerLost) as caught:
                member.barrier(timeout=BOUND_S)
        finally:
            os.kill(child, signal.SIGKILL)
    assert caught.value.missing_ranks == (1,)
    assert_released(running)


def assert_named(error: FaninError, target: int, here: bool) -> None:
    """On its own node the rank itself, elsewhere the ranks of its node."""
    assert target in error.missing_ranks
    node = target - target % LOCAL_RANKS
    assert error.missing_ranks == ((target,) if here else tuple(range(node, node + LOCAL_RANKS)))
