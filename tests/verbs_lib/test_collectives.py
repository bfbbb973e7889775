"""Collectives on objects of pyverbs, in one program with pyverbs' own traffic."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanin import errors
from fanin.verbs import CQ, PD, CollectiveQP, Context
from fanin.verbs_lib import library_path
from fanin_tools.cli.app import app
from fanin_tools.errors import UsageError
from fanin_tools.launch import pyverbs as system_pyverbs
from fanin_tools.stress.faults.rank_threads import describe
from tests.verbs_lib import heat
from tests.verbs_lib.conftest import BOUND_S, PROGRAMS, Programs

ROOT = Path(__file__).parents[2]
FANIN = Path(sys.executable).with_name("fanin")
RANKS = 4


@pytest.fixture
def pyverbs() -> None:
    """Skips if the system has no pyverbs for this interpreter."""
    try:
        system_pyverbs.find()
    except UsageError as lacking:
        pytest.skip(f"pyverbs for the Python of these tests (Debian: python3-pyverbs): {lacking.cause}")


@pytest.mark.parametrize("route", ["tree", "ring"])
@pytest.mark.usefixtures("pyverbs")
def test_collectives_on_objects_of_pyverbs(programs: Programs, tmp_path: Path, route: str) -> None:
    _, job = describe(programs.running, RANKS, route)
    text = tmp_path / "job"
    text.write_text(job.to_text())
    program = PROGRAMS / "collectives.py"
    with system_pyverbs.added([sys.executable, str(program)]) as command:
        ended = programs.run(*command, FANIN_JOB=str(text))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "right\n", ""), ended.stderr


@pytest.mark.usefixtures("pyverbs")
def test_example(programs: Programs) -> None:
    command = "fanin run -n 4 --pyverbs -- env LD_PRELOAD=$(fanin verbs-lib) python examples/verbs/greetings.py"
    for page in ("docs/verbs.md", "examples/verbs/greetings.py"):
        assert command in (ROOT / page).read_text()
    greetings = [f"rank {rank}: greetings from rank {(rank - 1) % RANKS}" for rank in range(RANKS)]
    assert sorted(run_example("greetings.py", programs).splitlines()) == greetings


@pytest.mark.usefixtures("pyverbs")
def test_example_with_communicator(programs: Programs) -> None:
    assert run_example("heat.py", programs) == heat.output(RANKS)


def run_example(name: str, programs: Programs) -> str:
    """The output of an example, by the command in its first lines."""
    program = ROOT / "examples/verbs" / name
    (named,) = re.findall(
        r"    (fanin run .* --pyverbs -- env LD_PRELOAD=\$\(fanin verbs-lib\) python .*?)(?:  |\n)", program.read_text()
    )
    _, *words = shlex.split(named.replace("$(fanin verbs-lib)", str(library_path())))
    words[words.index("--") : 1 + words.index("--")] = ["--fabric", programs.running.fabric.name, "--"]
    words[words.index("python") :] = [sys.executable, str(program)]
    ended = subprocess.run([FANIN, *words], capture_output=True, text=True, timeout=BOUND_S)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.mark.parametrize(
    ("files", "cause", "remedy"),
    [
        ([], "no pyverbs is in", "install it (Debian: python3-pyverbs), or leave out --pyverbs"),
        (["device.cpython-39-x86_64-linux-gnu.so"], "is not for Python", "PYTHON=/usr/bin/python3 make install"),
    ],
)
def test_a_pyverbs_that_can_not_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: list[str], cause: str, remedy: str
) -> None:
    for name in files:
        (tmp_path / "pyverbs").mkdir()
        (tmp_path / "pyverbs" / name).touch()
    monkeypatch.setattr(system_pyverbs, "PLACES", (str(tmp_path),))
    done = CliRunner().invoke(app, ["run", "--pyverbs", "--", sys.executable, "-c", "pass"])
    assert done.exit_code == 2
    assert done.stderr.startswith("fanin: NOT_SUPPORTED: ")
    assert cause in done.stderr
    assert remedy in done.stderr


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
