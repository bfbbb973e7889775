"""Collectives on objects of pyverbs, in one program with pyverbs' own traffic."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fanin import errors
from fanin.verbs import CQ, PD, CollectiveQP, Context
from fanin.verbs_lib import library_path
from fanin_tools.stress.faults.rank_threads import describe
from tests.verbs_lib import heat
from tests.verbs_lib.conftest import BOUND_S, PROGRAMS, Programs

ROOT = Path(__file__).parents[2]
FANIN = Path(sys.executable).with_name("fanin")
PACKAGED = Path("/usr/lib/python3/dist-packages/pyverbs")
RANKS = 4


@pytest.fixture
def pyverbs(tmp_path: Path) -> Path:
    """A folder that has Debian's pyverbs alone, for this interpreter."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "pyverbs").symlink_to(PACKAGED)
    line = [sys.executable, "-c", "import pyverbs.device"]
    if subprocess.run(line, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True).returncode:
        pytest.skip("pyverbs for the Python of these tests (Debian: python3-pyverbs)")
    return folder


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_collectives_on_objects_of_pyverbs(programs: Programs, pyverbs: Path, tmp_path: Path, route: str) -> None:
    _, job = describe(programs.running, RANKS, route)
    text = tmp_path / "job"
    text.write_text(job.to_text())
    program = PROGRAMS / "collectives.py"
    ended = programs.run(sys.executable, program, PYTHONPATH=str(pyverbs), FANIN_JOB=str(text))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "right\n", ""), ended.stderr


def test_example(programs: Programs, pyverbs: Path) -> None:
    greetings = [f"rank {rank}: greetings from rank {(rank - 1) % RANKS}" for rank in range(RANKS)]
    assert sorted(run_example("greetings.py", programs, pyverbs).splitlines()) == greetings


def test_example_with_communicator(programs: Programs, pyverbs: Path) -> None:
    assert run_example("heat.py", programs, pyverbs) == heat.output(RANKS)


def run_example(name: str, programs: Programs, pyverbs: Path) -> str:
    """What an example prints."""
    line = [
        "env",
        f"LD_PRELOAD={library_path()}",
        f"PYTHONPATH={pyverbs}",
        sys.executable,
        ROOT / "examples/verbs" / name,
    ]
    command = [FANIN, "run", "-n", str(RANKS), "--fabric", programs.running.fabric.name, "--", *line]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_without_the_library_it_is_said_by_name() -> None:
    script = "\n".join(
        [
            "from fanin import errors; from fanin.verbs import CollectiveQP",
            "class PD: __module__, handle = 'pyverbs.pd', 1",
            "try: CollectiveQP(PD(), PD())",
            "except errors.NotSupported as error: print(error.remedy)",
        ]
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "LD_PRELOAD=$(fanin verbs-lib)" in said.stdout, said.stderr


def test_the_last_completion_is_of_pyverbs_alone(programs: Programs) -> None:
    socket = programs.running.state.socket(programs.running.fabric.nics[0].name)
    with Context(socket) as context, pytest.raises(errors.NotSupported):
        CollectiveQP(PD(context), CQ(context)).last_completion()
