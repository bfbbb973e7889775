"""Faults of processes, which are devices of a fabric or ranks: killed, or stopped for a time."""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity, send_signal, wait_until_gone

END_SECONDS = 10.0
POLL_SECONDS = 0.01


def process_of(running: Running, device: str) -> ProcessIdentity:
    """Raises UsageError NO_DEVICE if none is recorded."""
    processes = running.state.processes()
    if device not in processes:
        names = ", ".join(processes)
        raise UsageError(f"fabric {running.fabric.name} has no daemon {device!r}", f"name one of {names}", "NO_DEVICE")
    return processes[device]


def kill(process: ProcessIdentity) -> None:
    """SIGKILL; waits until it is gone."""
    send_signal(process, signal.SIGKILL)
    _require_gone(process)


def kill_device(running: Running, device: str) -> None:
    kill(process_of(running, device))


def _require_gone(process: ProcessIdentity) -> None:
    if wait_until_gone([process], END_SECONDS):
        raise ToolError("TIMEOUT", f"process {process.pid} does not end", "see ps and the kernel's log")


@contextlib.contextmanager
def frozen(process: ProcessIdentity) -> Iterator[None]:
    """SIGSTOP for the time of the block."""
    send_signal(process, signal.SIGSTOP)
    try:
        _wait_until_stopped(process)
        yield
    finally:
        send_signal(process, signal.SIGCONT)


@contextlib.contextmanager
def frozen_device(running: Running, device: str) -> Iterator[None]:
    """SIGSTOP for the time of the block."""
    with frozen(process_of(running, device)):
        yield


def _wait_until_stopped(process: ProcessIdentity) -> None:
    """When the kernel shows the process as stopped, all its threads have the signal."""
    end = time.monotonic() + END_SECONDS
    while process.alive and _state(process) != "T":
        if time.monotonic() > end:
            raise ToolError("TIMEOUT", f"process {process.pid} can not be stopped", "see ps")
        time.sleep(POLL_SECONDS)


def _state(process: ProcessIdentity) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def open_descriptors(process: ProcessIdentity) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
