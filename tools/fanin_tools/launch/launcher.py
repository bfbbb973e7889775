"""The processes of a job. The first rank that fails by itself decides the exit code.

After a failure the other ranks have some seconds to report it themselves, since the devices tell them that a peer is
lost. Then they get SIGTERM, and later SIGKILL. A rank may end before the one that failed; it has then noted that
another rank was the cause. With `keep_going` there is no time limit: programs that rebuild their job go on.
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

GRACE_SECONDS = 10.0  # more than a device needs to notice that a peer is lost
TERMINATE_SECONDS = 3.0
MOST_LOOKED_AT = 1 << 26  # bytes of a program
LOOK_SECONDS = 30.0  # whether an interpreter has fanin
ERROR_OUTPUT = 2  # descriptor
WITHDRAWN = "-"  # in the file of exit causes: the rank goes on in a job formed anew


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended.

    failed_rank: the first rank that failed by itself; None if none failed
    status: exit code of its process, -N if signal N ended it
    reason: name of the error that ended the job, if every failed rank only followed others
    """

    failed_rank: int | None = None
    status: int = 0
    reason: str = ""

    @property
    def exit_code(self) -> int:
        """The exit code as a shell gives it: 128 + N for signal N."""
        return self.status if self.status >= 0 else 128 - self.status

    def __str__(self) -> str:
        if self.failed_rank is None:
            return "all ranks ended well"
        how = f"ended with exit code {self.status}" if self.status > 0 else f"was ended by {signal_name(-self.status)}"
        why = f" after others had ended its job ({self.reason})" if self.reason else ""
        return f"rank {self.failed_rank} {how}{why}"


def signal_name(number: int) -> str:
    """Name of a signal, for example SIGKILL; "signal N" if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Output:
    """Where the standard output of the ranks goes.

    prefix: the rank stands before every line of it, and of the error output, which then goes there as well
    to_errors: it goes to the error output of this command, whose standard output has something else
    """

    prefix: bool = False
    to_errors: bool = False

    @property
    def inherited(self) -> int | None:
        """For Popen: the descriptor that a process gets as its standard output."""
        return ERROR_OUTPUT if self.to_errors else None

    @property
    def stream(self) -> IO[str]:
        """For what this command writes for the ranks."""
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
        """Start every rank on the host of its NIC. bound: bind each rank to a core."""
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
        """How the job ended. exit_causes: for each rank whose job others ended, the name of the error."""
        if not self.failed:
            return JobOutcome()
        causes = [rank for rank in self.failed if rank not in exit_causes]
        rank = (causes or self.failed)[0]
        return JobOutcome(rank, self.processes[rank].returncode, exit_causes.get(rank, ""))

    def stop(self) -> None:
        """End the processes that still run: SIGTERM, and SIGKILL after TERMINATE_SECONDS."""
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
        is_program, names = file.read(4) == b"\x7fELF", file.read(MOST_LOOKED_AT)
        if is_program and (found := re.search(rb"\0(libmpi\w*\.so[\d.]*)\0", names)):
            return found[1].decode()
    return None


def lacks_fanin(command: list[str]) -> bool:
    """Whether a command runs a script by a Python interpreter that has no fanin, such as that of the system beside an
    environment. A folder of that name, which a clone may have, passes for an empty package. A script that does not
    exist has failed for that."""
    program, *arguments = command
    path = shutil.which(program)
    if path is None or not re.fullmatch(r"python[\d.]*", Path(program).name):
        return False
    if arguments and not arguments[0].startswith("-") and not Path(arguments[0]).exists():
        return False
    line = [path, "-c", "import fanin; fanin.Communicator"]
    try:
        return subprocess.run(line, capture_output=True, stdin=subprocess.DEVNULL, timeout=LOOK_SECONDS).returncode != 0
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
    """Copy `stream`, `prefix` before each line."""
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
    """Wait until all have ended, at most `seconds`. Returns whether they have."""
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

    Args:
        running: the fabric.
        placement: the nodes and the ranks on each.
        command: program and arguments.
        settings: of the job; None for the defaults.
        output: where the output of the ranks goes.
        grace: seconds for the other ranks after a failure.
        keep_going: no time limit for the other ranks.
        bound: bind each rank to a core.

    Returns:
        How the job ended.
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
    """The errors that ended the job of a rank, as the library noted them. The last line of each rank counts; "RANK -"
    withdraws its note.

    A program can write into the file, or remove it. Lines of any other form are ignored.
    """
    noted: dict[int, str] = {}
    with suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            rank, _, status = line.partition(" ")
            if rank.isdecimal() and status:
                noted[int(rank)] = status
    return {rank: status for rank, status in noted.items() if status != WITHDRAWN}
