"""The cost of a device for its host: CPU when idle, memory, and code that is compiled once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import BOUND_S, Bench, pid_of
from tests.e2e.members import job, run_ranks

NODES, RANKS = 2, 4
IDLE_S = 10.0
IDLE_SHARE = 0.01  # of one CPU
RESIDENT_MB = 250
BIG = 16 << 20  # elements of f32: 64 MiB
UTIME, RSS_PAGES = 11, 21  # fields of /proc/PID/stat behind the command, proc(5)
COMPILE_S = 400


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, RANKS // NODES))


def stat(pid: int) -> list[int]:
    """Fields of /proc/PID/stat behind the command; letters as 0."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(word) if word.lstrip("-").isdigit() else 0 for word in words]


def cpu_seconds(running: Running) -> dict[str, float]:
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        device.name: sum(stat(pid_of(running, device.name))[UTIME : UTIME + 2]) / ticks
        for device in running.fabric.devices
    }


def busy_shares(running: Running) -> dict[str, float]:
    """Each device's share of a CPU over IDLE_S."""
    before = cpu_seconds(running)
    time.sleep(IDLE_S)
    return {name: (after - before[name]) / IDLE_S for name, after in cpu_seconds(running).items()}


@pytest.mark.parametrize("with_job", [False, True], ids=["nothing", "silent-jobs"])
def test_idle_devices_use_no_cpu(running: Running, with_job: bool) -> None:
    """Even with silent jobs that have worked and send keep-alives."""
    if not with_job:
        assert max(busy_shares(running).values()) < IDLE_SHARE
        return
    with job(running, RANKS, "tree") as tree, job(running, RANKS, "ring") as ring:
        for members in (tree, ring):
            run_ranks(RANKS, lambda rank, members=members: members[rank].allreduce(np.ones(5000), timeout=BOUND_S))
        assert max(busy_shares(running).values()) < IDLE_SHARE


def test_devices_share_the_session_of_their_starter_and_outlive_its_terminal(running: Running) -> None:
    """Between sessions Linux lets no yield through; a hangup, as of a closed terminal, ends none of them."""
    for device in running.fabric.devices:
        pid = pid_of(running, device.name)
        assert (os.getsid(pid), os.getpgid(pid)) == (os.getsid(0), pid)
        os.kill(pid, signal.SIGHUP)
    with job(running, RANKS, "tree") as members:
        sums = run_ranks(RANKS, lambda rank: members[rank].allreduce(np.ones(1, "f4"), timeout=BOUND_S))
    assert [total[0] for total in sums] == [RANKS] * RANKS


@pytest.mark.parametrize("registered", [True, False], ids=["registered", "ordinary"])
def test_devices_stay_small(running: Running, registered: bool) -> None:
    """Without memory that clients have registered, which shows as the device's too."""
    with job(running, RANKS, "tree") as members:

        def act(rank: int) -> np.ndarray:
            array = members[rank].alloc(BIG) if registered else np.empty(BIG, "f4")
            array[:] = 1
            return members[rank].allreduce(array, out=array, timeout=BOUND_S)

        results = run_ranks(RANKS, act, 60)
        assert all((result == RANKS).all() for result in results)
        for device in running.fabric.devices:
            assert private_mb(pid_of(running, device.name)) < RESIDENT_MB, device.name
        del results
    for device in running.fabric.devices:
        pages = stat(pid_of(running, device.name))[RSS_PAGES]
        assert pages * os.sysconf("SC_PAGE_SIZE") / 1e6 < RESIDENT_MB, device.name


def private_mb(pid: int) -> float:
    """Resident memory without mapped memfds."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssFile")) / 1000


def files_of(folder: Path) -> dict[str, int]:
    """Files and their times of change."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, capture_output=True, text=True, env=os.environ | environment, timeout=COMPILE_S, check=False
    )


def test_compiled_code_is_shared_by_all_processes(running: Running) -> None:
    """The fabric has filled the cache: a process that loads everything adds and changes nothing."""
    from fanin_nic.native.compiled import CACHE_FOLDER

    before = files_of(CACHE_FOLDER)
    assert before
    done = python("from fanin_nic.daemon import precompile; precompile.main()")
    assert done.returncode == 0, done.stderr
    assert str(CACHE_FOLDER) in done.stdout
    assert files_of(CACHE_FOLDER) == before


@pytest.mark.parametrize("folder", ["/proc/fanin", "/dev/null/fanin", "/sys/fanin"])
def test_cache_that_can_not_be_written_is_replaced_by_one_among_temporary_files(folder: str, tmp_path: Path) -> None:
    """It outlives its process, since devices that were forked still read it. With one small function: to compile all
    again would take a minute."""
    program = """
from pathlib import Path
from numba import config
from fanin_nic.native.compiled import CACHE_FOLDER
from fanin_nic.daemon.splitter.split import lanes_of
assert (lanes_of(8, 4096, 2), lanes_of(64, 4096, 2)) == (1, 2)
assert Path(config.CACHE_DIR) == CACHE_FOLDER and any(CACHE_FOLDER.rglob("*.nbi"))
print(CACHE_FOLDER)
"""
    done = python(program, FANIN_CACHE_DIR=folder, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    substitute = Path(done.stdout.strip())
    assert substitute.is_relative_to(tmp_path)
    assert any(substitute.rglob("*.nbi"))
