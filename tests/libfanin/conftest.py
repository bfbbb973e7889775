"""Programs in C, compiled against the installed header and library, and run as the ranks of a job on real devices."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

import fanin
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench

PACKAGE = Path(fanin.__file__).parent
PROGRAMS = Path(__file__).with_name("programs")
FANIN = Path(sys.executable).with_name("fanin")
FLAGS = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
BOUND_S = 200.0
CROWD = 36  # ranks of a node; a rank that decides on the survivors asks 32 others at a time


@dataclass
class Compiler:
    """Compiles programs, each once."""

    folder: Path
    built: dict[Path, Path] = field(default_factory=dict)

    def build(self, source: Path) -> Path:
        """The program of a source file."""
        if source not in self.built:
            target = self.folder / source.stem
            link = [f"-I{PACKAGE / 'include'}", f"-L{PACKAGE}", "-l:libfanin.so", f"-Wl,-rpath,{PACKAGE}"]
            compiler = shlex.split(os.environ.get("CC", "cc"))
            subprocess.run([*compiler, *FLAGS, str(source), "-o", str(target), *link], check=True)
            self.built[source] = target
        return self.built[source]


@pytest.fixture(scope="session")
def compiler() -> Iterator[Compiler]:
    """A compiler with a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="fanin-c-") as folder:
        yield Compiler(Path(folder))


def uneven(fabric: Fabric, *ranks: int) -> Fabric:
    """A fabric whose nodes take as many ranks as is said."""
    places = iter(ranks)
    devices = (replace(nic, ranks=next(places)) if nic.kind == "nic" else nic for nic in fabric.devices)
    return replace(fabric, devices=tuple(devices))


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def fabrics(bench: Bench) -> dict[str, Running]:
    """Fabrics of one node, of three below a switch, of two with many ranks, and of two whose first has almost all."""
    return {
        "local": bench.up(Shape(nodes=1, ranks_per_node=4)),
        "nodes": bench.up(Shape(nodes=3, ranks_per_node=2)),
        "crowded": bench.up(Shape(nodes=2, ranks_per_node=20)),
        "uneven": bench.build(uneven(bench.describe(Shape(nodes=2)), CROWD, 4)),
    }


@pytest.fixture
def run(fabrics: dict[str, Running]) -> Run:
    """Function: run a program as every rank of a job, by `fanin run`."""

    def run_ranks(
        fabric: str, ranks: int, program: Path, *arguments: str, options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        line = [str(FANIN), "run", "-n", str(ranks), "--fabric", fabrics[fabric].fabric.name, *options]
        return subprocess.run(
            [*line, "--", str(program), *arguments], capture_output=True, text=True, timeout=BOUND_S, check=False
        )

    return run_ranks
