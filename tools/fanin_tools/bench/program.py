"""An MPI program, plain and with the shim, in turns: times of the whole command, offloaded calls, and output."""

import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fanin.mpi import library_path
from fanin_tools.bench import mpi_shim
from fanin_tools.bench.mpi_shim import Calls
from fanin_tools.bench.program_output import NO_DIFFERENCE, Difference, difference
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import end_with_caller
from fanin_tools.launch import mpirun
from fanin_tools.launch.launcher import signal_name, wait_for_all, wait_for_any
from fanin_tools.launch.placement import Placement
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import render_time

TERMINATE_SECONDS = 5.0  # for a launcher to end its ranks
SHOWN = 600  # characters of each output of a failed program


@dataclass(frozen=True)
class Commands:
    """The two commands, their working directory, and the seconds that a run may take."""

    plain: list[str]
    with_fanin: list[str]
    directory: Path
    limit: float


@dataclass
class Outcome:
    """What was measured.

    plain, with_fanin: seconds of each turn. calls: of the last run with the shim; None without a report. warnings:
    other lines of the shim. output, plain_output: how much the outputs with the shim, and those of other plain runs,
    differ at most from that of the first plain run.
    """

    plain: list[float] = field(default_factory=list)
    with_fanin: list[float] = field(default_factory=list)
    calls: list[Calls] | None = None
    warnings: list[str] = field(default_factory=list)
    output: Difference = NO_DIFFERENCE
    plain_output: Difference = NO_DIFFERENCE

    @property
    def ratio(self) -> float:
        """The median time with the shim, divided by that of the plain program."""
        return statistics.median(self.with_fanin) / statistics.median(self.plain)

    @property
    def faster_turns(self) -> int:
        """Turns in which the program was faster with the shim."""
        return sum(ours < plain for plain, ours in zip(self.plain, self.with_fanin, strict=True))


@dataclass(frozen=True)
class Run:
    """A run that ended well."""

    seconds: float
    output: str
    errors: str


def check_environment() -> None:
    """Raise UsageError if the shim is in LD_PRELOAD: no run would be plain."""
    shim = library_path().name
    if any(Path(word).name == shim for word in re.split("[: ]", os.environ.get("LD_PRELOAD", ""))):
        raise UsageError("LD_PRELOAD has the shim, so no run would be plain", "unset LD_PRELOAD")


def commands_of(
    running: Running, placement: Placement, launcher: str, command: Sequence[str], directory: Path, limit: float
) -> Commands:
    """The command lines of a program. The shim has the settings of the user's environment.

    launcher: of the MPI, with its options. directory: working directory of the program. limit: seconds that a run may
    take. Raises UsageError as `mpirun.command_line` does.
    """
    with_report = ["env", f"{mpi_shim.REPORT}=1", *command]
    lines = [
        mpirun.plain_command_line(placement.size, launcher, command),
        mpirun.command_line(running, placement, launcher, with_report),
    ]
    for line in lines:
        if os.sep in line[0]:
            line[0] = os.path.abspath(line[0])  # found from this directory
    return Commands(lines[0], lines[1], directory, limit)


def measure(commands: Commands, turns: int, progress: ProgressCallback) -> Outcome:
    """Run both command lines once in each turn; each is first in every other turn, the plain one in the first.

    Raises ToolError PROGRAM_FAILED if a run ends with another code than 0, TIMEOUT if it takes too long; UsageError
    NO_PROGRAM if the launcher can not be started.
    """
    found, first = Outcome(), ""
    for turn in range(turns):
        for is_plain in (True, False) if turn % 2 == 0 else (False, True):
            run = _run(commands, is_plain, turn)
            if turn == 0 and is_plain:
                first = run.output
            _add(found, run, is_plain, first)
        times = f"plain {render_time(found.plain[-1])}, with Fanin {render_time(found.with_fanin[-1])}"
        progress(f"turn {turn + 1} of {turns}: {times}")
    return found


def _add(found: Outcome, run: Run, is_plain: bool, first: str) -> None:
    differs = difference(first, run.output)
    if is_plain:
        found.plain.append(run.seconds)
        found.plain_output = found.plain_output.greatest(differs)
    else:
        found.with_fanin.append(run.seconds)
        found.output = found.output.greatest(differs)
        found.calls = mpi_shim.calls(run.errors)
        found.warnings = list(dict.fromkeys([*found.warnings, *mpi_shim.warnings(run.errors)]))


def _run(commands: Commands, is_plain: bool, turn: int) -> Run:
    line = commands.plain if is_plain else commands.with_fanin
    title = f"{'plain' if is_plain else 'with Fanin'}, turn {turn + 1}"
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        try:
            process = subprocess.Popen(
                line,
                cwd=commands.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=mpirun.OVERSUBSCRIBE | os.environ,
                process_group=0,
                preexec_fn=end_with_caller(signal.SIGTERM),  # at which it ends its ranks
            )
        except OSError as error:
            remedy = "name the launcher of an MPI with --mpirun"
            raise UsageError(f"{line[0]} can not be started: {error.strerror}", remedy, "NO_PROGRAM") from error
        try:
            wait_for_any([process], commands.limit)
            seconds = time.perf_counter() - begun
            code = process.poll()
        finally:
            _end(process)
        said = [_text(file) for file in (output, errors)]
    if code is None:
        remedy = "give it less to do, or more time with --limit"
        raise ToolError("TIMEOUT", f"{title}: still running after {commands.limit:g} s{_last_words(said)}", remedy)
    if code:
        how = f"exit code {code}" if code > 0 else signal_name(-code)
        remedy = f"see all that it says: {_alone(is_plain)}"
        raise ToolError("PROGRAM_FAILED", f"{title}: ended with {how}{_last_words(said)}", remedy)
    return Run(seconds, *said)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a running launcher and its process group. Open MPI's ranks are in no such group: their launcher ends them."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            wait_for_all([process], TERMINATE_SECONDS)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _last_words(said: Sequence[str]) -> str:
    """Of both outputs, as the end of a sentence: the launcher explains itself on one, the program on either."""
    texts = [" ".join(word for word in text.split() if set(word) != {"-"}) for text in said]  # Open MPI draws lines
    return "".join(f": {_tail(text)}" for text in texts if text)


def _tail(text: str) -> str:
    return text if len(text) <= SHOWN else f"... {text[-SHOWN:].partition(' ')[2]}"


def _alone(is_plain: bool) -> str:
    return "start it with its own launcher, without Fanin" if is_plain else "start it with fanin run --mpi"
