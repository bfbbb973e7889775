"""The processes of a job. The first rank that fails by itself decides the exit code.

After a failure the others have some seconds to report it themselves, since the devices tell them that a peer is lost.
Then they get SIGTERM, and later SIGKILL. A rank that ends before the one that failed has noted that another was the
cause. With `keep_going` there is no time limit, for programs that rebuild their job.
"""

import contextlib
import math
import os
import re
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
from fanin_tools.fabric.processes import end_with_caller
from fanin_tools.launch import core_binding, job_file
from fanin_tools.launch.placement import Placement
from fanin_wire.settings import JobSettings

GRACE_SECONDS = 10.0  # more than a device takes to notice that a peer is lost
TERMINATE_SECONDS = 3.0
MAX_INSPECTED = 1 << 26  # bytes of a program
PROBE_TIMEOUT_SECONDS = 30.0  # to find out whether an interpreter has fanin
ERROR_OUTPUT = 2  # descriptor
WITHDRAWN = "-"  # in the file of exit causes: the rank goes on in a new job


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended.

    failed_rank: the first that failed by itself; None if none failed. status: exit code of its process, -N if signal N
    ended it. reason: error that ended the job, if every failed rank only followed others.
    """

    failed_rank: int | None = None
    status: int = 0
    reason: str = ""

    @property
    def exit_code(self) -> int:
        """As a shell gives it: 128 + N for signal N."""
        return self.status if self.status >= 0 else 128 - self.status

    def __str__(self) -> str:
        if self.failed_rank is None:
            return "all ranks ended well"
        how = f"ended with exit code {self.status}" if self.status > 0 else f"was ended by {signal_name(-self.status)}"
        why = f" after others had ended its job ({self.reason})" if self.reason else ""
        return f"rank {self.failed_rank} {how}{why}"


def signal_name(number: int) -> str:
    """For example SIGKILL; "signal N" if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Output:
    """Where the ranks' standard output goes.

    prefix: put the rank before every line of it and of the error output, which then goes there as well. to_errors: to
    this command's error output, since its standard output has something else.
    """

    prefix: bool = False
    to_errors: bool = False

    @property
    def inherited(self) -> int | None:
        """For Popen: a process's descriptor of standard output."""
        return ERROR_OUTPUT if self.to_errors else None

    @property
    def stream(self) -> IO[str]:
        """The stream for this command's own output for ranks."""
        return sys.stderr if self.to_errors else sys.stdout


TO_STANDARD_OUTPUT = Output()


@dataclass
class RankProcesses:
    """The processes of a job, by rank."""

    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    printers: list[threading.Thread] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)  # in the order of their end

    def start(
        self, running: Running, placement: Placement, job: Path, command: Sequence[str], output: Output, bound: bool
    ) -> None:
        """Every rank on the host of its NIC. bound: bind each to a core."""
        for rank in range(placement.size):
            host = placement.nics[placement.node_of(rank)].host
            line = [*namespaces.prefix_command(running.fabric, host), *command]
            environment = os.environ | job_file.environment(running, placement, rank, job)
            with core_binding.bound(rank) if bound else nullcontext():
                self.processes.append(_spawn(line, environment, output))
        for rank, process in enumerate(self.processes):
            if process.stdout is not None:
                self._print_lines(rank, process.stdout, output)

    def _print_lines(self, rank: int, stream: IO[bytes], output: Output) -> None:
        arguments = (stream, f"[{rank}] ", output.stream)
        self.printers.append(threading.Thread(target=copy_lines, args=arguments, daemon=True))
        self.printers[-1].start()

    def wait(self, grace_seconds: float) -> None:
        """Wait until all have ended, but at most `grace_seconds` after the first failure."""
        end = math.inf
        while left := self._running():
            if self.failed:
                end = min(end, time.monotonic() + grace_seconds)
            if time.monotonic() >= end:
                return
            wait_for_any(left, None if end == math.inf else end - time.monotonic())

    def _running(self) -> list[subprocess.Popen[bytes]]:
        """The processes that have not ended. Notes the ranks that have failed."""
        running = []
        for rank, process in enumerate(self.processes):
            if process.poll() is None:
                running.append(process)
            elif process.returncode and rank not in self.failed:
                self.failed.append(rank)
        return running

    def end(self, exit_causes: dict[int, str]) -> JobOutcome:
        """How the job ended. exit_causes: the error, by rank whose job others ended."""
        if not self.failed:
            return JobOutcome()
        causes = [rank for rank in self.failed if rank not in exit_causes]
        rank = (causes or self.failed)[0]
        return JobOutcome(rank, self.processes[rank].returncode, exit_causes.get(rank, ""))

    def stop(self) -> None:
        """SIGTERM, and SIGKILL after TERMINATE_SECONDS."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._running():
                process.send_signal(number)
            if wait_for_all(self.processes, TERMINATE_SECONDS):
                break
        wait_for_all(self.processes, None)
        for printer in self.printers:
            printer.join(TERMINATE_SECONDS)


def require_program(program: str) -> None:
    """Raise UsageError NO_PROGRAM unless `program` can be started."""
    if shutil.which(program) is not None:
        return
    path = Path(program)
    if not path.exists():
        reason, remedy = "there is no such program", "give the path of a program behind --"
    elif path.is_dir():
        reason, remedy = "it is a folder", "give the path of a program behind --"
    elif path.suffix == ".py":
        reason, remedy = "it is a file of Python", f"name its interpreter: {sys.executable} {program}"
    elif os.access(path, os.X_OK):
        reason, remedy = "it is in this folder, and not in one of $PATH", f"write ./{program}"
    else:
        reason, remedy = "it is not executable", f"chmod +x {program}, or name its interpreter"
    raise UsageError(f"{program} can not be started: {reason}", remedy, name="NO_PROGRAM")


def mpi_library_of(program: str) -> str | None:
    """The library of an MPI that an ELF program is linked with."""
    path = shutil.which(program)
    with contextlib.suppress(OSError), open(path or os.devnull, "rb") as file:
        is_program, names = file.read(4) == b"\x7fELF", file.read(MAX_INSPECTED)
        if is_program and (found := re.search(rb"\0(libmpi\w*\.so[\d.]*)\0", names)):
            return found[1].decode()
    return None


def lacks_fanin(command: list[str]) -> bool:
    """Whether a command runs an existing script by a Python interpreter without fanin, such as the system's. A folder
    fanin, which a clone may have, would pass for an empty package."""
    program, *arguments = command
    path = shutil.which(program)
    if path is None or not re.fullmatch(r"python[\d.]*", Path(program).name):
        return False
    if arguments and not arguments[0].startswith("-") and not Path(arguments[0]).exists():
        return False
    line = [path, "-c", "import fanin; fanin.Communicator"]
    try:
        return (
            subprocess.run(
                line, capture_output=True, stdin=subprocess.DEVNULL, timeout=PROBE_TIMEOUT_SECONDS
            ).returncode
            != 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def _spawn(line: list[str], environment: dict[str, str], output: Output) -> subprocess.Popen[bytes]:
    to, errors = (subprocess.PIPE, subprocess.STDOUT) if output.prefix else (output.inherited, None)
    try:
        return subprocess.Popen(
            line,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=to,
            stderr=errors,
            preexec_fn=end_with_caller(signal.SIGKILL),
        )
    except OSError as error:
        cause = f"{line[0]} can not be started: {error.strerror}"
        raise ToolError("NO_PROGRAM", cause, "give the path of a program behind --", exit_code=2) from error


def copy_lines(stream: IO[bytes], prefix: str, to: IO[str]) -> None:
    """Put `prefix` before each line."""
    for line in stream:
        to.write(prefix + line.decode(errors="replace"))
        to.flush()


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
    """Wait at most `seconds`. Returns whether all have ended."""
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
    settings: JobSettings | None = None,
    *,
    output: Output = TO_STANDARD_OUTPUT,
    grace: float = GRACE_SECONDS,
    keep_going: bool = False,
    bound: bool = False,
) -> JobOutcome:
    """Run `command` once for each rank.

    settings: of the job; None: the defaults. grace: seconds for the other ranks after a failure. keep_going: without a
    time limit for them. bound: bind each rank to a core.
    """
    job = job_file.write(running, job_file.describe(running, placement, settings))
    exit_causes = job_file.exit_causes(job)
    exit_causes.touch(mode=0o600)
    ranks = RankProcesses()
    try:
        ranks.start(running, placement, job, command, output, bound)
        ranks.wait(math.inf if keep_going else grace)
        return ranks.end(read_exit_causes(exit_causes))
    finally:
        ranks.stop()
        job.unlink(missing_ok=True)
        exit_causes.unlink(missing_ok=True)


def read_exit_causes(path: Path) -> dict[int, str]:
    """The errors that ended a rank's job, as the library noted them. A rank's last line counts; "RANK -" withdraws its
    note.

    A program can write into the file, or remove it; other lines are ignored.
    """
    noted: dict[int, str] = {}
    with suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            rank, _, status = line.partition(" ")
            if rank.isdecimal() and status:
                noted[int(rank)] = status
    return {rank: status for rank, status in noted.items() if status != WITHDRAWN}
