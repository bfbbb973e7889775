"""MPIs of both families, each in a virtual environment (`make peers`), and fabrics for their programs."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fanin.mpi import library_path
from fanin_tools.bench.streams import SOURCE
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch.mpirun import environment
from fanin_tools.launch.placement import place
from tests.e2e.fabrics import Bench
from tests.waiting import BOUND_S

ROOT = Path(__file__).parents[2]
PEERS = Path(os.environ.get("FANIN_PEERS", ROOT / ".bench"))
PROGRAMS = Path(__file__).with_name("programs")
PLAIN_MPI = SOURCE.parent  # a header
FAMILIES = {"mpich": [], "openmpi": ["--oversubscribe"]}  # options of mpiexec
QUIET_WAITING = {"MPIR_CVAR_DEFAULT_THREAD_LEVEL": "MPI_THREAD_MULTIPLE"}  # else MPICH spins where there are few cores
# Offload every size on every communicator, also where that is slower.
EVERYTHING = {"FANIN_MPI_THRESHOLDS": "all=0-", "FANIN_MPI_JOIN": "early"}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass
class Mpi:
    """Its programs, and those that were built with it."""

    family: str
    folder: Path
    built: Path
    programs: dict[str, Path] = field(default_factory=dict)

    def build(self, name: str) -> Path:
        """The program `name` of this folder, with the parts in the folder `name` if it exists; compiled once."""
        if name not in self.programs:
            target = self.built / f"{name}-{self.family}"
            compiler = self.folder / "bin/mpicc"
            sources = [PROGRAMS / f"{name}.c", *sorted((PROGRAMS / name).glob("*.c"))]
            subprocess.run(
                [compiler, "-O1", "-Wall", "-pthread", f"-I{PLAIN_MPI}", *sources, "-o", target, "-lm"], check=True
            )
            self.programs[name] = target
        return self.programs[name]

    def run(
        self,
        ranks: int,
        command: list[str | Path],
        variables: dict[str, str],
        options: Sequence[str] = (),
        bound_s: float = BOUND_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command once per rank, with these environment variables in the ranks, and options of the launcher."""
        given = [f"{name}={value}" for name, value in (QUIET_WAITING | variables).items()]
        line = [
            self.folder / "bin/mpiexec",
            *FAMILIES[self.family],
            *options,
            "-n",
            str(ranks),
            "env",
            *given,
            *command,
        ]
        root = AS_ROOT if os.geteuid() == 0 else {}
        return subprocess.run(line, capture_output=True, text=True, env=os.environ | root, timeout=bound_s)

    def succeed(
        self, ranks: int, command: list[str | Path], variables: dict[str, str], **given: Any
    ) -> subprocess.CompletedProcess[str]:
        """As `run`. The command must end well."""
        ended = self.run(ranks, command, variables, **given)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended

    def python(self, *arguments: str | Path) -> list[str | Path]:
        """A command line of the interpreter that has this MPI's mpi4py."""
        return [self.folder / "bin/python", *arguments]


@pytest.fixture(scope="session", params=sorted(FAMILIES))
def mpi(request: pytest.FixtureRequest) -> Iterator[Mpi]:
    """Each family in turn; skips if it is not installed."""
    folder = PEERS / request.param
    if not (folder / "bin/mpiexec").exists():
        pytest.skip(f"an MPI in {folder} (make peers)")
    with tempfile.TemporaryDirectory(prefix="fanin-mpi-") as built:
        yield Mpi(request.param, folder, Path(built))


@dataclass
class Fabrics:
    """Of a test file: one with a switch, which every route can use."""

    running: Running

    def variables(self, ranks: int, route: str, library: Path | None = None, **more: str) -> dict[str, str]:
        """For a rank with the shim, or with another library instead."""
        found = environment(self.running, place(self.running.fabric, ranks, route))
        return found | EVERYTHING | {"LD_PRELOAD": str(library or library_path()), "FANIN_MPI_REPORT": "1"} | more


@pytest.fixture(scope="module")
def fabrics(bench: Bench) -> Fabrics:
    """Three nodes below a switch."""
    return Fabrics(bench.up(Shape(nodes=3, ranks_per_node=4)))
