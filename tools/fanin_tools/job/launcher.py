"""The processes of a job: all started, all ended; the first that fails by itself decides.

A rank that fails leaves the others time to report it in their own words (the devices tell them that a peer is lost);
then they are told to end, then made to. Such others may end first, but have noted that it was not their fault.
Without such a limit (`keep_going`) they go on until they end by themselves: as programs do that rebuild their job.
"""

from __future__ import annotations

import math
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.job import binding, job_file
from fanin_tools.job.job_file import Terms
from fanin_tools.job.placement import Placement

GRACE_SECONDS = 10.0  # more than a device needs to notice that a peer is lost
TERMINATE_SECONDS = 3.0
TAKEN_BACK = "-"  # in the file of consequences: the rank goes on in a job formed anew


@dataclass(frozen=True)
class End:
    """How a job ended.

    failed_rank: the first that failed by itself, None if all ended well
    status: exit code of its process, -N if signal N ended it
    because: why its job had ended, if all that failed only followed others: a name as of an exception
    """

    failed_rank: int | None = None
    status: int = 0
    because: str = ""

    @property
    def exit_code(self) -> int:
        """As a shell gives it: 128 + N for signal N."""
        return self.status if self.status >= 0 else 128 - self.status

    def __str__(self) -> str:
        if self.failed_rank is None:
            return "all ranks ended well"
        how = f"ended with exit code {self.status}" if self.status > 0 else f"was ended by {signal_name(-self.status)}"
        why = f" after others had ended its job ({self.because})" if self.because else ""
        return f"rank {self.failed_rank} {how}{why}"


def signal_name(number: int) -> str:
    """SIGKILL for 9; signals without a name by their number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass
class Ranks:
    """The running processes of a job, by rank. prefix: put the rank before every line of their output; bound: each is
    kept to a core."""

    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    printers: list[threading.Thread] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)  # in the order in which they were seen to

    def start(
        self, running: Running, placement: Placement, job: Path, command: Sequence[str], prefix: bool, bound: bool
    ) -> None:
        """Start every rank on the host of its NIC."""
        for rank in range(placement.size):
            host = placement.nics[placement.node_of(rank)].host
            line = [*namespaces.prefix_command(running.fabric, host), *command]
            environment = os.environ | job_file.environment(running, placement, rank, job)
            with binding.bound(rank) if bound else nullcontext():
                self.processes.append(_spawn(line, environment, prefix))
            if prefix:
                self._print_lines(rank)

    def _print_lines(self, rank: int) -> None:
        stream = self.processes[rank].stdout
        assert stream is not None
        self.printers.append(threading.Thread(target=copy_lines, args=(stream, f"[{rank}] "), daemon=True))
        self.printers[-1].start()

    def wait(self, grace_seconds: float) -> None:
        """Wait until all have ended; once one has failed, for `grace_seconds` more at most."""
        end = math.inf
        while left := self._running():
            if self.failed:
                end = min(end, time.monotonic() + grace_seconds)
            if time.monotonic() >= end:
                return
            wait_for_any(left, None if end == math.inf else end - time.monotonic())

    def _running(self) -> list[subprocess.Popen[bytes]]:
        """Those that have not ended; notes which have failed."""
        running = []
        for rank, process in enumerate(self.processes):
            if process.poll() is None:
                running.append(process)
            elif process.returncode and rank not in self.failed:
                self.failed.append(rank)
        return running

    def end(self, consequences: dict[int, str]) -> End:
        """How the job ended. consequences: why the job of a rank had ended, where that was the fault of others."""
        if not self.failed:
            return End()
        causes = [rank for rank in self.failed if rank not in consequences]
        rank = (causes or self.failed)[0]
        return End(rank, self.processes[rank].returncode, consequences.get(rank, ""))

    def stop(self) -> None:
        """End those that still run: SIGTERM, a little later SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._running():
                process.send_signal(number)
            if wait_for_all(self.processes, TERMINATE_SECONDS):
                break
        wait_for_all(self.processes, None)
        for printer in self.printers:
            printer.join(TERMINATE_SECONDS)


def require_program(program: str) -> None:
    """UsageError NO_PROGRAM where there is none that can be started."""
    if shutil.which(program) is None:
        found = Path(program).exists()
        cause = f"{program} can not be started: {'it is not executable' if found else 'there is no such program'}"
        raise UsageError(cause, "give the path of a program behind --", name="NO_PROGRAM")


def _spawn(line: list[str], environment: dict[str, str], prefix: bool) -> subprocess.Popen[bytes]:
    output = subprocess.PIPE if prefix else None
    errors = subprocess.STDOUT if prefix else None
    try:
        return subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
    except OSError as error:
        cause = f"{line[0]} can not be started: {error.strerror}"
        raise ToolError("NO_PROGRAM", cause, "give the path of a program behind --", exit_code=2) from error


def copy_lines(stream: IO[bytes], prefix: str) -> None:
    """Copy `stream` to the standard output, `prefix` before each line."""
    for line in stream:
        sys.stdout.write(prefix + line.decode(errors="replace"))
        sys.stdout.flush()


def wait_for_any(processes: Sequence[subprocess.Popen[bytes]], seconds: float | None) -> None:
    """Sleep until one of `processes` ends, at most `seconds`."""
    with ExitStack() as stack:
        poller = select.poll()
        for process in processes:
            descriptor = os.pidfd_open(process.pid)
            stack.callback(os.close, descriptor)
            poller.register(descriptor, select.POLLIN)
        poller.poll(None if seconds is None else 1000 * seconds + 1)


def wait_for_all(processes: Sequence[subprocess.Popen[Any]], seconds: float | None) -> bool:
    """Wait until all have ended, at most `seconds`; whether they have."""
    end = None if seconds is None else time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(None if end is None else max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
    return True


def launch(
    running: Running,
    placement: Placement,
    command: Sequence[str],
    terms: Terms | None = None,
    *,
    prefix: bool = False,
    grace: float = GRACE_SECONDS,
    keep_going: bool = False,
    bound: bool = False,
) -> End:
    """Run `command` once per rank; how it ended. grace: seconds for the others when one has failed; keep_going: they
    have as long as they want; bound: each rank is kept to a core."""
    job = job_file.write(running, job_file.describe(running, placement, terms))
    consequences = job_file.consequences(job)
    consequences.touch(mode=0o600)
    ranks = Ranks()
    try:
        ranks.start(running, placement, job, command, prefix, bound)
        ranks.wait(math.inf if keep_going else grace)
        return ranks.end(read_consequences(consequences))
    finally:
        ranks.stop()
        job.unlink(missing_ok=True)
        consequences.unlink(missing_ok=True)


def read_consequences(path: Path) -> dict[int, str]:
    """What ranks have noted (`fanin.membership.exit_cause`): the last line of each counts, "RANK -" takes it back.

    A program can write into the file, or remove it: what is no such line is not one.
    """
    noted: dict[int, str] = {}
    with suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            rank, _, status = line.partition(" ")
            if rank.isdecimal() and status:
                noted[int(rank)] = status
    return {rank: status for rank, status in noted.items() if status != TAKEN_BACK}
