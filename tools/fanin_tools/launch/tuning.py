"""The thresholds of MPI programs on this machine, which the shim measures and reads from a file.

A line for each MPI, route and number of ranks, such as `open-mpi local 4: all=off, allreduce=4k-`.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import mpirun
from fanin_tools.launch.launcher import Output
from fanin_tools.launch.placement import Placement

MEASURE = "FANIN_MPI_TUNE"  # the shim's: the file for what it measures
FILE = Path("fanin/mpi-thresholds")  # in the folder of the user's settings, as host/fanin/mpi/settings.c says
HEAD = "# FANIN_MPI_THRESHOLDS of this machine, measured by fanin tune"
PROGRAM = "#include <mpi.h>\nint main(void) { return MPI_Init(0, 0) || MPI_Finalize(); }\n"


def tuned_file() -> Path:
    """The file that the shim reads. Raises UsageError if the user has no folder of settings."""
    folder, home = os.environ.get("XDG_CONFIG_HOME"), os.environ.get("HOME")
    if not folder and not home:
        raise UsageError("neither XDG_CONFIG_HOME nor HOME is set", "name a file with --output")
    return (Path(folder) if folder else Path(home or "") / ".config") / FILE


def build(launcher: str, folder: Path) -> Path:
    """Compile a program that does nothing, with the compiler beside the MPI's launcher; its path."""
    source = folder / "program.c"
    source.write_text(PROGRAM)
    remedy = "name a program of that MPI: fanin tune -- ./program"
    return mpirun.compile_program(launcher, source, folder / "program", remedy)


def measure(
    running: Running,
    placement: Placement,
    launcher: str,
    command: Sequence[str],
    folder: Path,
    goes_on: Callable[[], None],
) -> dict[str, str]:
    """Let an MPI program's ranks measure in MPI_Init; thresholds by MPI, route and ranks.

    goes_on: called now and then meanwhile. Raises ToolError PROGRAM_FAILED if the program has failed, NOT_SUPPORTED if
    it has measured nothing.
    """
    found = folder / "thresholds"
    words = ["env", f"{MEASURE}={found}", *command]
    if code := mpirun.launch(running, placement, launcher, words, Output(to_errors=True), goes_on):
        cause = f"{launcher} ended with exit code {code}"
        raise ToolError("PROGRAM_FAILED", cause, mpirun.remedy_of_failure(launcher))
    if not found.exists():
        remedy = "see its error output above; it must be a program of the MPI of --mpirun"
        raise ToolError("NOT_SUPPORTED", f"{command[0]} has taken no measurements", remedy)
    return dict(_parts(line) for line in found.read_text().splitlines())


def save(found: dict[str, str], path: Path) -> None:
    """Put thresholds into a file; they replace those for the same MPI, route and number of ranks. Raises UsageError if
    the file can not be read or written."""
    try:
        lines = path.read_text().splitlines() if path.exists() else [HEAD]
        for head, thresholds in found.items():
            lines = _merged(lines, head, f"{head}: {thresholds}")
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_text("\n".join([*lines, ""]))
        new.replace(path)
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is no text"
        remedy = "name another with --output, or give the lines above to rank 0 in FANIN_MPI_THRESHOLDS"
        raise UsageError(f"{path}: {cause}", remedy) from error


def _parts(line: str) -> tuple[str, str]:
    head, _, thresholds = line.partition(":")
    return head.strip(), thresholds.strip()


def _merged(lines: list[str], head: str, new: str) -> list[str]:
    """A line holds from its number of ranks on, and later lines override: fewer ranks come first."""
    heads = [_parts(line)[0] if ";" not in line else "" for line in lines]
    if head in heads:
        return [new if found == head else line for found, line in zip(heads, lines, strict=True)]
    place, ranks = head.rsplit(" ", 1)
    for index, found in enumerate(heads):
        other, _, more = found.rpartition(" ")
        if other == place and more.isdecimal() and int(more) > int(ranks):
            return [*lines[:index], new, *lines[index:]]
    return [*lines, new]
