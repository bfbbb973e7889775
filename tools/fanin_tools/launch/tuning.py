"""The thresholds of MPI programs on this machine: measured by the shim, kept in a file that the shim reads.

The file has a line for each MPI, route and number of ranks, such as `open-mpi local 4: all=off, allreduce=4k-`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import mpirun
from fanin_tools.launch.launcher import Output
from fanin_tools.launch.placement import Placement

MEASURE = "FANIN_MPI_TUNE"  # of the shim: the file for what it measures
FILE = Path("fanin/mpi-thresholds")  # in the folder of the user's settings, as host/fanin/mpi/settings.c says
HEAD = "# FANIN_MPI_THRESHOLDS of this machine, measured by fanin tune\n"
PROGRAM = "#include <mpi.h>\nint main(void) { return MPI_Init(0, 0) || MPI_Finalize(); }\n"
COMPILER = "mpicc"


def tuned_file() -> Path:
    """The file that the shim reads."""
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / FILE


def build(launcher: str, folder: Path) -> Path:
    """Compile a program that does nothing, with the compiler beside the launcher of the MPI. Returns its path.

    Raises:
        UsageError: NO_PROGRAM if there is no such compiler.
        ToolError: BUILD_FAILED, with the first lines of the compiler.
    """
    path = Path(shutil.which(mpirun.launcher_words(launcher)[0]) or "").absolute()
    beside = path.with_name(COMPILER + path.suffix)  # Debian has mpirun.mpich and mpicc.mpich
    if not beside.exists():
        remedy = "name a program of that MPI: fanin tune -- ./program"
        raise UsageError(f"there is no {beside.name} beside {path}", remedy, name="NO_PROGRAM")
    source, program = folder / "program.c", folder / "program"
    source.write_text(PROGRAM)
    done = subprocess.run([beside, source, "-o", program], capture_output=True, text=True)
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[:300]
        raise ToolError("BUILD_FAILED", f"{beside}: {said}", "name a program of that MPI: fanin tune -- ./program")
    return program


def measure(
    running: Running, placement: Placement, launcher: str, command: Sequence[str], folder: Path
) -> dict[str, str]:
    """Let the ranks of an MPI program measure in MPI_Init. Returns thresholds by what they hold for.

    Raises:
        ToolError: NOT_SUPPORTED if the program has not measured.
    """
    found = folder / "thresholds"
    words = ["env", f"{MEASURE}={found}", *command]
    mpirun.launch(running, placement, launcher, words, Output(to_errors=True))
    lines = parse(found.read_text()) if found.exists() else {}
    if not lines:
        remedy = "see its error output above; it must be a program of the MPI of --mpirun"
        raise ToolError("NOT_SUPPORTED", f"{command[0]} has measured nothing", remedy)
    return lines


def parse(text: str) -> dict[str, str]:
    """The lines of a file of thresholds: before and after the colon."""
    pairs = (line.partition(":") for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {head.strip(): thresholds.strip() for head, _, thresholds in pairs}


def save(found: dict[str, str], path: Path) -> None:
    """Put lines into a file, in the place of those for the same MPI, route and number of ranks.

    Raises:
        UsageError: the file can not be written.
    """
    try:
        present = parse(path.read_text()) if path.exists() else {}
        merged = sorted((present | found).items(), key=_order)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + "".join(f"{head}: {thresholds}\n" for head, thresholds in merged))
    except OSError as error:
        remedy = "name another with --output, and give its text to the ranks in FANIN_MPI_THRESHOLDS"
        raise UsageError(f"{path}: {error.strerror}", remedy) from error


def _order(line: tuple[str, str]) -> tuple[str, int]:
    """Fewer ranks first: a line holds from its number of ranks on, and later ones override it."""
    group, _, ranks = line[0].rpartition(" ")
    return (group, int(ranks)) if ranks.isdecimal() else (line[0], 0)
