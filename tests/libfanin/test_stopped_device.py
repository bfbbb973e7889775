"""A program loses its device when that stands still for the detection time, and keeps one that is only slow."""

import contextlib
import random
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import PIPE

import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import frozen_device
from tests.e2e.fabrics import Bench, statuses
from tests.libfanin.conftest import PROGRAMS, Compiler
from tests.waiting import BOUND_S, DETECTION_S

PAUSES = 3  # of a slow device; together longer than the detection time
CHILDREN = 8
LOST = "DEVICE_LOST 1"  # status, and that the device stands still


@pytest.fixture(scope="module")
def nics(bench: Bench) -> Running:
    """Two NICs with a short detection time."""
    return bench.up(Shape(nodes=2, ranks_per_node=CHILDREN, detection=DETECTION_S))


def any_job() -> str:
    """An id for a job."""
    return str(random.randrange(1, 1 << 31))


@contextlib.contextmanager
def started(program: Path, running: Running, nics: list[str], *rest: object) -> Iterator[subprocess.Popen[str]]:
    """A program that has the sockets of some NICs and the rest as arguments."""
    sockets = [str(running.state.socket(name)) for name in nics]
    line = [str(program), *sockets, *map(str, rest)]
    with subprocess.Popen(line, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        yield process


def tell(process: subprocess.Popen[str]) -> None:
    """Let the program go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def read(process: subprocess.Popen[str]) -> str:
    """The next line of the program, which has limits of its own."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def finish(process: subprocess.Popen[str]) -> None:
    """The program ends well, also by what a sanitizer finds at its end."""
    _, errors = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0, errors


def stopped(running: Running, nic: str) -> AbstractContextManager[None]:
    """A NIC stands still for the time of the block."""
    return frozen_device(running, nic)


def test_stopped_device_is_lost_after_its_detection_time(compiler: Compiler, nics: Running) -> None:
    bound = statuses(nics)["nic0"]["detection_s"]
    assert bound == DETECTION_S
    program = compiler.build(PROGRAMS / "stopped_device.c")
    with started(program, nics, ["nic0"], any_job(), 1, 0) as process:
        assert read(process) == "joined"
        with stopped(nics, "nic0"):
            tell(process)
            *outcome, milliseconds = read(process).split()
        assert " ".join(outcome) == LOST
        assert int(milliseconds) / 1000 > bound / 2
        finish(process)


def test_slow_device_is_not_lost(compiler: Compiler, nics: Running) -> None:
    program = compiler.build(PROGRAMS / "stopped_device.c")
    with started(program, nics, ["nic0"], any_job(), 1, 0) as process:
        assert read(process) == "joined"
        for _ in range(PAUSES):
            with stopped(nics, "nic0"):
                tell(process)
                time.sleep(DETECTION_S / 2)
            status, still, milliseconds = read(process).split()
            assert (status, still) == ("SUCCESS", "0")
            assert int(milliseconds) > 1000 * DETECTION_S / 4
        finish(process)


def test_device_that_runs_again_tells_the_others(compiler: Compiler, nics: Running) -> None:
    """A rank that has given up its device is lost for those that have not, although its process lives."""
    program, job = compiler.build(PROGRAMS / "stopped_device.c"), any_job()
    with started(program, nics, ["nic0"], job, 2, 0) as gave_up, started(program, nics, ["nic0"], job, 2, 1) as waits:
        assert [read(gave_up), read(waits)] == ["joined"] * 2
        with stopped(nics, "nic0"):
            tell(gave_up)
            assert read(gave_up).startswith(LOST)
        tell(waits)
        assert read(waits).startswith("PEER_LOST 0")
        finish(gave_up)
        finish(waits)


def test_forked_children_lose_their_own_device(compiler: Compiler, nics: Running) -> None:
    """While they are forked, a thread of the parent looks after a device that stands still."""
    with started(compiler.build(PROGRAMS / "forked_child.c"), nics, ["nic0", "nic1"], any_job()) as process:
        assert read(process) == "looking"
        with stopped(nics, "nic0"):
            time.sleep(DETECTION_S / 4)
            tell(process)
            assert [read(process) for _ in range(CHILDREN)] == ["joined"] * CHILDREN
            with stopped(nics, "nic1"):
                assert [read(process) for _ in range(CHILDREN)] == [LOST] * CHILDREN
            finish(process)


def test_signals_do_not_end_a_program_that_waits_to_be_let_in(compiler: Compiler, nics: Running) -> None:
    """The device is busy, so others stand before it: a call that waits is interrupted all the time."""
    program = compiler.build(PROGRAMS / "interrupted.c")
    with started(program, nics, ["nic0"]) as process, contextlib.ExitStack() as others:
        tell(process)
        assert read(process) == "SUCCESS"
        with stopped(nics, "nic0"):
            stand_in_line(str(nics.state.socket("nic0")), others)
            tell(process)
            time.sleep(0.5)
            assert not select.select([process.stdout], [], [], 0)[0], read(process)
        assert read(process) == "SUCCESS"
        finish(process)


def stand_in_line(socket_path: str, others: contextlib.ExitStack) -> None:
    """Connect to a device until nobody else can."""
    for _ in range(1000):
        other = others.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
        try:
            other.connect(socket_path)
        except BlockingIOError:
            return
    raise AssertionError("there was room for all")
