"""A killed soak leaves nothing: no device, no forked process, no namespace, no folder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin_tools.fabric import lifecycle, namespaces, state
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity, wait_until_gone
from tests.e2e.fabrics import statuses
from tests.fabric.fixtures import own_state_folder
from tests.waiting import BOUND_S

FANIN = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()"]
MINUTES = "0.5"
POLL_S = 0.05

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of this test's own."""
    with own_state_folder(monkeypatch) as folder:
        yield folder


@pytest.mark.parametrize("kind", ["fuzzing", "faults"])
def test_nothing_is_left_of_a_soak_that_is_killed(kind: str) -> None:
    command = [*FANIN, "soak", "--minutes", MINUTES, "--kinds", kind, "--seed", "1"]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=nothing, stderr=nothing, process_group=0) as soak:
        try:
            running = with_active_job(soak)
            devices = list(running.state.processes().values())
            children = processes_of_group(soak.pid)
        finally:
            soak.send_signal(signal.SIGKILL)
    assert devices
    assert wait_until_gone([*devices, *children], BOUND_S) == []
    assert until_gone(running)
    if running.fabric.netns:
        namespaces.require_absent(running.fabric)


def with_active_job(soak: subprocess.Popen[bytes]) -> Running:
    """The fabric of a soak, as soon as a job on it is active."""
    end = time.monotonic() + BOUND_S
    while soak.poll() is None and time.monotonic() < end:
        for running in filter(None, map(lifecycle.find, state.names())):
            jobs = [job for status in statuses(running).values() for job in status["jobs"]]
            if any(job["state"] == "active" for job in jobs):
                return running
        time.sleep(POLL_S)
    raise AssertionError(f"no job; the soak has ended with {soak.poll()}")


def processes_of_group(group: int) -> list[ProcessIdentity]:
    """Forked by a soak; devices and guards have groups of their own."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getpgid(int(name)) == group:
                found.append(ProcessIdentity.of(int(name)))
        except ProcessLookupError:
            continue
    return found


def until_gone(running: Running) -> bool:
    """Whether a fabric's folder is removed."""
    end = time.monotonic() + BOUND_S
    while running.state.exists and time.monotonic() < end:
        time.sleep(POLL_S)
    return not running.state.exists
