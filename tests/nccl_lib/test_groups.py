"""Collective groups of four processes, over a switch and within one node: right results, errors, nothing that grows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import kill_device
from tests.e2e.fabrics import Bench
from tests.nccl_lib.plugin import VERSIONS
from tests.waiting import DETECTION_S

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
RANKS = 4
ITERATIONS = int(os.environ.get("FANIN_TEST_NCCL", "400"))
SANITIZED = {"LD_PRELOAD": os.environ["FANIN_TEST_PRELOAD"]} if "FANIN_TEST_PRELOAD" in os.environ else {}
BOUND_S = 120.0 + ITERATIONS / 10  # four processes that never sleep share the cores


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    """Four NICs below a switch."""
    return bench.up(Shape(nodes=RANKS, ranks_per_node=RANKS))


class Ranks:
    """The processes of a group, each by a NIC of its own, or all by the first."""

    def __init__(self, running: Running, version: int, program: str, *, together: bool = False) -> None:
        self.processes = []
        for rank in range(RANKS):
            nic = running.fabric.nics[0 if together else rank]
            environment = os.environ | {"FANIN_SOCKET": str(running.state.socket(nic.name))} | SANITIZED
            command = [sys.executable, "-m", "tests.nccl_lib.rank", str(version), str(rank), str(RANKS), program]
            pipe = subprocess.PIPE
            self.processes.append(
                subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
            )
        handles = [self.line(rank) for rank in range(RANKS)]
        self.tell(json.dumps(handles))

    def line(self, rank: int) -> str:
        """The next line of a rank."""
        output = self.processes[rank].stdout
        assert output is not None
        return output.readline().strip()

    def tell(self, text: str, *ranks: int) -> None:
        """A line for some ranks, or for all."""
        for rank in ranks or range(RANKS):
            pipe = self.processes[rank].stdin
            assert pipe is not None
            print(text, file=pipe, flush=True)

    def wait_until_ready(self) -> None:
        """All have a group."""
        assert [self.line(rank) for rank in range(RANKS)] == ["ready"] * RANKS

    def finish(self, *ranks: int) -> None:
        """They end well."""
        for rank in ranks or range(RANKS):
            output, errors = self.processes[rank].communicate(timeout=BOUND_S)
            assert (output.split()[-1:], errors) == (["ok"], ""), f"rank {rank}: {errors}"

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_collective(running: Running, version: int) -> None:
    with Ranks(running, version, "collectives", together=version == VERSIONS[0]) as ranks:
        ranks.finish()


def test_nothing_grows(running: Running) -> None:
    with Ranks(running, VERSIONS[-1], "many") as ranks:
        ranks.tell(str(ITERATIONS))
        ranks.finish()


def test_a_rank_that_dies(running: Running) -> None:
    with Ranks(running, VERSIONS[-1], "until_refused") as ranks:
        ranks.wait_until_ready()
        ranks.tell("PEER_LOST")
        ranks.processes[2].kill()
        ranks.finish(0, 1, 3)


def test_a_device_that_dies(bench: Bench) -> None:
    running = bench.up(Shape(nodes=RANKS, ranks_per_node=1, detection=DETECTION_S))
    with Ranks(running, VERSIONS[-1], "until_refused") as ranks:
        ranks.wait_until_ready()
        for rank in range(RANKS):
            ranks.tell("DEVICE_LOST" if rank == 2 else "PEER_LOST", rank)
        kill_device(running, running.fabric.nics[2].name)
        ranks.finish()
