"""Every test has the right markers, and the table of the rigs is up to date."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fanin_sim.model_check.instances import INSTANCES
from tests import rigs
from tests.waiting import DETECTION_S

FOLDER = Path(__file__).parent
TIMED, WAITS = ("communicate", "run"), ("join", "result", "settimeout", "wait")
OWN_CLOCK = ("engine", "sim", "transport")  # folders whose tests have a clock of their own
SOURCES = "\n".join(path.read_text() for path in FOLDER.rglob("*.py"))
README = (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("part", [pytest.param(part, marks=getattr(pytest.mark, part)) for part in ("unit", "process")])
def test_every_test_says_what_it_needs(part: str, request: pytest.FixtureRequest) -> None:
    """Of those that were selected for this run; once in each part of a run of all."""
    assert request.node in request.session.items
    for item in request.session.items:
        names = {mark.name for mark in item.iter_markers()}
        assert len(names & {"unit", "process"}) == 1, item.nodeid
        assert not names & {"netns", "mpi"} or "process" in names, item.nodeid
        assert not {"quick", "deep"} <= names, item.nodeid


def test_unit_test_can_not_start_a_process() -> None:
    with pytest.raises(AssertionError, match="marked unit and starts a process"):
        subprocess.run([sys.executable, "--version"])
    with pytest.raises(AssertionError, match="marked unit and starts a process"):
        os.fork()


@pytest.mark.process
def test_other_tests_can() -> None:
    assert subprocess.run([sys.executable, "--version"], capture_output=True).returncode == 0


@pytest.mark.process
def test_tests_of_a_group_run_in_one_process(tmp_path: Path) -> None:
    """The versions of pytest and of pytest-xdist fit: with some, `--dist loadgroup` does nothing."""
    mark = "@pytest.mark.xdist_group('one')\n@pytest.mark.parametrize('each', range(8))"
    body = "def test_it(worker_id, each):\n    print('in', worker_id)"
    (tmp_path / "test_it.py").write_text(f"import pytest\n\n{mark}\n{body}\n")
    options = ["-rP", "--numprocesses", "2", "--dist", "loadgroup", "--rootdir", str(tmp_path), str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert sorted(set(re.findall(r"^in (\w+)$", said, re.M))) in (["gw0"], ["gw1"]), said


@pytest.mark.parametrize(
    "path",
    [
        *(rigs.PATHS | rigs.WAITING_PATHS | rigs.ALONE_PATHS | rigs.LONG_TESTS),
        *(*rigs.DEEP, *rigs.QUICK_PROCESSES, *rigs.NOT_QUICK),
    ],
)
def test_path_of_the_table_is_there(path: str) -> None:
    file, _, function = path.partition("::")
    assert (FOLDER.parent / file).exists()
    function = function.partition("[")[0]
    assert function in (FOLDER.parent / file).read_text() if function else True


def test_searches_of_the_table_are_there() -> None:
    """Else one that is renamed would be one of `make test`."""
    searches = "".join(test for test in rigs.LONG_TESTS if test.startswith(rigs.SEARCH))
    assert set(re.findall(r"\[(.*?)\]", searches)) <= set(INSTANCES)


@pytest.mark.parametrize("fixture", rigs.FIXTURES)
def test_fixture_of_the_table_is_there(fixture: str) -> None:
    assert re.search(rf"^@pytest\.fixture.*\ndef {fixture}\(", SOURCES, re.M)


def test_page_has_every_folder_and_marker() -> None:
    folders = {path.parent.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/test_*.py")}
    first_cells = set(re.findall(r"^\| `([a-z0-9_]+)`", README, re.M))
    assert folders <= first_cells
    assert {name for name in rigs.MARKERS if f"`{name}`" not in README} == set()


def impatient(text: str) -> list[str]:
    """Where a test gives others less time than a busy machine needs. Bounds below 2 s are of what is not to happen."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            is_wait = name in WAITS and isinstance(node.func, ast.Attribute)
            bounds = [given.get("timeout")] if name in TIMED else node.args if is_wait else []
            if any(2 <= number < 60 for number in numbers(bounds)):
                found.append(ast.unparse(node))
            if name == "Shape" and any(number < DETECTION_S for number in numbers([given.get("detection")])):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Assign) and re.match(r"\w*BOUND_S = ", ast.unparse(node)):
            found += [ast.unparse(node)] if any(number < 60 for number in numbers([node.value])) else []
    return found


def numbers(nodes: list[ast.expr | None]) -> list[float]:
    """Those of the expressions that are numbers."""
    return [each.value for each in nodes if isinstance(each, ast.Constant) and type(each.value) in (int, float)]


@pytest.mark.parametrize("folder", sorted({path.parent for path in FOLDER.rglob("test_*.py")}), ids=str)
def test_waits_are_those_of_a_busy_machine(folder: Path) -> None:
    """`tests/waiting.py` has the bound of all, and the detection time."""
    if folder.relative_to(FOLDER).parts[:1] not in ((each,) for each in OWN_CLOCK):
        assert {path.name: found for path in folder.glob("*.py") if (found := impatient(path.read_text()))} == {}


@pytest.mark.parametrize(
    "line", ["thread.join(20)", "f(x.communicate(timeout=5))", "Shape(2, detection=1.0)", "BOUND_S = 20"]
)
def test_short_bound_is_found(line: str) -> None:
    assert len(impatient(line)) == 1
