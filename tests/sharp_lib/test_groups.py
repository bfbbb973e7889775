"""Groups of four processes in C that call libsharp_coll as UCC does: right results, errors, nothing that grows."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin.sharp_lib import prefix
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import kill_device
from tests.e2e.fabrics import Bench
from tests.waiting import DETECTION_S

pytestmark = pytest.mark.process
RANKS = 4
DEAD = 2  # the rank that takes no part in the last allreduce of the program `last`
ITERATIONS = int(os.environ.get("FANIN_TEST_UCC", "200"))
BOUND_S = 120.0 + ITERATIONS / 10  # four processes that never sleep share the cores


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    """Four NICs below a switch."""
    return bench.up(Shape(nodes=RANKS, ranks_per_node=RANKS, detection=DETECTION_S))


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    """The program of a rank, compiled against the folder that UCC is given."""
    with tempfile.TemporaryDirectory(prefix="fanin-sharp-") as folder:
        target, source = Path(folder) / "rank", Path(__file__).with_name("rank.c")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{prefix() / 'include'}"]
        link = [f"-L{prefix() / 'lib'}", "-lsharp_coll", f"-Wl,-rpath,{prefix() / 'lib'}"]
        subprocess.run([*compiler, *flags, source, "-o", target, *link], check=True)
        yield target


class Ranks:
    """The processes of a group. All find all NICs, and each takes one by its number, or all take the first."""

    def __init__(self, program: Path, running: Running, name: str, *, together: bool = False, **settings: str) -> None:
        sockets = [str(running.state.socket(nic.name)) for nic in running.fabric.nics]
        self.environment = os.environ | {"FANIN_SOCKET": ":".join(sockets)} | settings
        if together:
            self.environment["UCC_TL_SHARP_DEVICES"] = running.fabric.nics[0].name
        self.processes = list[subprocess.Popen[str]]()
        self._bound = threading.Timer(BOUND_S, self._kill)  # of ranks that hang; what reads their lines goes on then
        self._bound.start()
        with tempfile.TemporaryDirectory(prefix="fanin-sharp-") as self.folder:
            self._start(program, name)
            assert self.line(0) == "listening"
            for _ in range(1, RANKS):
                self._start(program, name)
            assert self.line(0) == "connected"

    def _start(self, program: Path, name: str) -> None:
        rank, pipe = len(self.processes), subprocess.PIPE
        own = {key.removesuffix(f"__{rank}"): value for key, value in self.environment.items()}
        command = [program, str(rank), str(RANKS), self.folder, name]
        process = subprocess.Popen(command, env=own, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
        self.processes.append(process)

    def line(self, rank: int) -> str:
        """The next line of a rank."""
        output = self.processes[rank].stdout
        assert output is not None
        return output.readline().strip()

    def wait_until_ready(self) -> None:
        """All but one have begun the last allreduce."""
        assert [self.line(rank) for rank in range(RANKS)] == ["ready"] * RANKS

    def error_with(self, rank: int, text: str) -> str:
        """The next line of standard error of a rank that has a text."""
        output = self.processes[rank].stderr
        assert output is not None
        for line in output:
            if text in line:
                return line
        pytest.fail(f"rank {rank} has ended without {text}")

    def end_input(self) -> None:
        """Nothing more comes: whoever waits for that goes on."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()

    def _rest(self, rank: int) -> tuple[str, str]:
        """What a rank writes until it ends; `communicate` would lose what `line` has read ahead."""
        process = self.processes[rank]
        assert process.stdout is not None
        assert process.stderr is not None
        return process.stdout.read(), process.stderr.read()

    def finish(self, *ranks: int) -> list[str]:
        """They end well. Returns what each has said on standard error."""
        said = []
        for rank in ranks or range(RANKS):
            output, errors = self._rest(rank)
            assert (output.split()[-1:], self.processes[rank].wait(BOUND_S)) == (["ok"], 0), f"rank {rank}: {errors}"
            said.append(errors)
        return said

    def aborted(self, rank: int) -> str:
        """A rank ends by itself, since a collective has failed. Returns what it has said."""
        _, errors = self._rest(rank)
        assert self.processes[rank].wait(BOUND_S) == -signal.SIGABRT, f"rank {rank}: {errors}"
        return errors

    def __enter__(self) -> Ranks:
        return self

    def _kill(self) -> None:
        for process in self.processes:
            process.kill()

    def __exit__(self, *_: object) -> None:
        self._bound.cancel()
        self._kill()
        for process in self.processes:
            process.wait()


@pytest.mark.parametrize("together", [False, True], ids=["nodes", "one-node"])
def test_every_collective(program: Path, running: Running, together: bool) -> None:
    with Ranks(program, running, "collectives", together=together) as ranks:
        assert ranks.finish() == [""] * RANKS


def test_what_is_refused_is_said_and_all_goes_on(program: Path, running: Running) -> None:
    with Ranks(program, running, "refusals") as ranks:
        for said in ranks.finish():
            assert "allreduce: NOT_SUPPORTED: devices do not compute band of f32: " in said
            assert "allgather: INVALID_REQUEST: 8 times 4 bytes in memory of 9 at " in said
            assert "allreduce: INVALID_REQUEST: 4611686018427387905 times 4 bytes in memory of 8 at " in said
            assert "broadcast: INVALID_REQUEST: " in said
            assert "broadcast: NOT_SUPPORTED: devices read and write the host's memory only" in said


def test_a_forked_child_leaves_its_parent_alone(program: Path, running: Running) -> None:
    with Ranks(program, running, "forked") as ranks:
        said = ranks.finish()
    assert "barrier: INVALID_REQUEST: a parent process has opened the device: " in said[0]
    assert said[1:] == [""] * 3


def test_nothing_grows(program: Path, running: Running) -> None:
    with Ranks(program, running, "many", FANIN_SHARP_REPORT="1") as ranks:
        for process in ranks.processes:
            assert process.stdin is not None
            print(ITERATIONS, file=process.stdin, flush=True)
        assert f"after {ITERATIONS} allreduces" in ranks.finish()[0].splitlines()[-1]


def test_a_rank_without_a_device(program: Path, running: Running) -> None:
    """No rank takes the devices then, and one says why."""
    with Ranks(program, running, "refused", FANIN_SOCKET__1="/nowhere/nic.sock") as ranks:
        said = ranks.finish()
    assert [bool(errors) for errors in said] == [False, True, False, False]
    assert "NO_DEVICE" in said[1]
    assert "/nowhere/nic.sock" in said[1]


def test_a_rank_without_memory(program: Path, running: Running) -> None:
    """All ranks are refused the group then, and the next one is formed. First rank 0, then rank 1."""
    with Ranks(program, running, "without_memory") as ranks:
        said = ranks.finish()
    assert ["NO_RESOURCES" in errors for errors in said] == [True, True, False, False]


def test_a_device_that_no_nic_has(program: Path, running: Running) -> None:
    with Ranks(program, running, "refused", UCC_TL_SHARP_DEVICES="mlx5_0,mlx5_1") as ranks:
        assert "UCC_TL_SHARP_DEVICES=mlx5_0,mlx5_1 names none of the 4 NICs" in ranks.finish()[0]


def test_a_setting_that_makes_no_sense(program: Path, running: Running) -> None:
    with Ranks(program, running, "refusals", FANIN_SHARP_FAILURE="ignore") as ranks:
        assert "BAD_SETTING: FANIN_SHARP_FAILURE=ignore is taken as abort: write abort, or wait" in ranks.finish()[0]


def test_a_rank_that_dies_ends_the_others(program: Path, running: Running) -> None:
    with Ranks(program, running, "last") as ranks:
        ranks.wait_until_ready()
        ranks.processes[DEAD].kill()
        for rank in set(range(RANKS)) - {DEAD}:
            said = ranks.aborted(rank)
            assert "allreduce: PEER_LOST: " in said
            assert f"missing: rank {DEAD}" in said


def test_a_rank_that_dies_and_others_that_live_on(program: Path, running: Running) -> None:
    with Ranks(program, running, "last", FANIN_SHARP_FAILURE="wait") as ranks:
        ranks.wait_until_ready()
        ranks.processes[DEAD].kill()
        left = sorted(set(range(RANKS)) - {DEAD})
        for rank in left:
            assert f"missing: rank {DEAD}" in ranks.error_with(rank, "PEER_LOST")
            pipe = ranks.processes[rank].stdin
            assert pipe is not None
            print(file=pipe, flush=True)
        ranks.finish(*left)


def test_a_device_that_dies(program: Path, bench: Bench) -> None:
    """No rank has a wrong result, and none waits for that device when they form a group again."""
    running = bench.up(Shape(nodes=RANKS, ranks_per_node=1, detection=DETECTION_S))
    with Ranks(program, running, "regroup", FANIN_SHARP_FAILURE="wait") as ranks:
        ranks.wait_until_ready()
        kill_device(running, running.fabric.nics[1].name)
        assert "allreduce: DEVICE_LOST: " in ranks.error_with(1, "_LOST")
        for rank in (0, 3):
            assert "allreduce: PEER_LOST: " in ranks.error_with(rank, "_LOST")
        ranks.end_input()
        said = ranks.finish()
    assert "forming a group of ranks: DEVICE_LOST: " in said[1]
    assert not any("forming a group" in words for words in said[:1] + said[2:])
