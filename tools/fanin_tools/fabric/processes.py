"""Processes that this tool started, by pid and start time, so that a reused pid is never signalled."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fanin_tools.kernel_files import require_proc

# Fields of /proc/PID/stat behind the command (proc(5)): state is field 3, starttime field 22.
STATE_FIELD = 0
START_TIME_FIELD = 19
POLL_SECONDS = 0.02
PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


@dataclass(frozen=True)
class ProcessIdentity:
    """start_time: in clock ticks since boot."""

    pid: int
    start_time: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """ProcessLookupError if no process `pid` runs."""
        fields = _stat_fields(pid)
        if fields is None:
            raise ProcessLookupError(pid)
        return cls(pid, int(fields[START_TIME_FIELD]))

    @property
    def alive(self) -> bool:
        """A zombie is not alive."""
        fields = _stat_fields(self.pid)
        return fields is not None and int(fields[START_TIME_FIELD]) == self.start_time and fields[STATE_FIELD] != "Z"


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        require_proc()
        return None
    # The command may contain spaces and parentheses.
    return text.rpartition(")")[2].split()


def send_signal(process: ProcessIdentity, number: int) -> None:
    """Unless it has ended. The pidfd is opened before the check, so the pid stays the same."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if process.alive:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


def end_with_caller(number: int) -> Callable[[], None]:
    """For Popen's `preexec_fn`: the process gets this signal when the thread that starts it ends, also by SIGKILL."""
    prctl, caller = ctypes.CDLL(None).prctl, os.getpid()

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != caller:  # it ended before
            os._exit(1)

    return prepare


def wait_until_gone(processes: list[ProcessIdentity], seconds: float) -> list[ProcessIdentity]:
    """Wait until all have ended, at most `seconds`. Returns those that still run."""
    end = time.monotonic() + seconds
    while (left := [process for process in processes if process.alive]) and time.monotonic() < end:
        _reap(left)
        time.sleep(POLL_SECONDS)
    return left


def wait_for_end(process: ProcessIdentity, pipe: int) -> None:
    """Sleep until `process`, any process, has ended, or the other end of `pipe` is closed."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if process.alive:
            select.select([descriptor, pipe], [], [])
    finally:
        os.close(descriptor)


def terminate(processes: list[ProcessIdentity], grace_seconds: float) -> None:
    """Send SIGTERM to all, and SIGKILL to those that run after `grace_seconds`. Returns when none runs."""
    for process in processes:
        send_signal(process, signal.SIGTERM)
    stubborn = wait_until_gone(processes, grace_seconds)
    for process in stubborn:
        send_signal(process, signal.SIGKILL)
    wait_until_gone(stubborn, grace_seconds)


def _reap(processes: list[ProcessIdentity]) -> None:
    """Collect our children, so that none stays a zombie."""
    for process in processes:
        try:
            os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            continue
