"""The C compiler of an MPI, beside its launcher."""

import os
import shutil
import subprocess
from pathlib import Path

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.launch import mpirun

COMPILER = "mpicc"


def build(launcher: str, source: Path, program: Path, remedy: str) -> Path:
    """Compile `source` with the compiler beside a launcher; the program's path.

    Raises UsageError NO_PROGRAM, with `remedy`, if there is no such compiler; ToolError BUILD_FAILED, with its first
    lines.
    """
    path = Path(shutil.which(mpirun.launcher_words(launcher)[0]) or "").absolute()
    beside = path.with_name(COMPILER + path.suffix)  # Debian has mpirun.mpich and mpicc.mpich
    if not os.access(beside, os.X_OK):
        raise UsageError(f"there is no {beside.name} beside {path}", remedy, name="NO_PROGRAM")
    done = subprocess.run([beside, "-O2", source, "-o", program], capture_output=True, text=True)
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[:300]
        raise ToolError("BUILD_FAILED", f"{beside}: {said}", remedy)
    return program
