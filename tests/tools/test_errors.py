"""Errors of the command that no other test provokes. docs/errors.md lists every error."""

import ast
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fanin_tools
from fanin import Communicator
from fanin_nic.engine.records.tables import Counter
from fanin_nic.port.descriptors import Drop
from fanin_sim.scenario.runner import ScenarioRun
from fanin_tools.cli import app, output
from fanin_tools.errors import ToolError
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.state import FabricState
from fanin_tools.stress.faults import fault_kinds
from fanin_wire.status import STATUSES, StatusEntry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text()
SOURCES = sorted(Path(fanin_tools.__file__).parent.rglob("*.py"))
NAME = re.compile(r"[A-Z][A-Z_]{3,}")


def names_in(path: Path) -> set[str]:
    """Names of the errors that a file raises."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            named = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
            first = node.args[:1] if getattr(node.func, "id", "") == "ToolError" else []
            constants = [part.value for part in (*named, *first) if isinstance(part, ast.Constant)]
            found |= {value for value in constants if isinstance(value, str) and NAME.fullmatch(value)}
    return found


NAMES = set().union(*map(names_in, SOURCES))
STATUS_NAMES = {entry.name for entry in STATUSES.values()}


def rows(page: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in page.splitlines() if line[:1] == "|"]


@pytest.mark.parametrize("entry", STATUSES.values(), ids=lambda entry: entry.name)
def test_a_remedy_is_one_that_a_user_can_follow(entry: StatusEntry) -> None:
    """No program forms a job, chooses its key, or attaches a second time. Whatever a remedy names exists."""
    assert not re.search(r"form the job|\bkey\b|\banew\b|replace it|\breply\b|join again", entry.remedy)
    header = (ROOT / "host" / "fanin" / "core" / "fanin.h").read_text()
    for method in re.findall(r"Communicator\.(\w+)", entry.remedy):
        assert callable(getattr(Communicator, method))
    for function in re.findall(r"\bfanin_\w+", entry.remedy):
        assert f"{function}(" in header
    for command in re.findall(r"\bfanin ((?:fabric )?[a-z]+)", entry.remedy):
        assert CliRunner().invoke(app.app, [*command.split(), "--help"]).exit_code == 0


def test_every_name_of_the_command_has_a_cause_and_a_remedy() -> None:
    described = {row[0] for row in rows(PAGE) if len(row) == 3 and all(row)}
    assert len(NAMES) > 15
    assert described | STATUS_NAMES >= NAMES  # the table of the statuses is generated


def test_the_page_names_nothing_that_is_not_there() -> None:
    named = {row[0] for row in rows(PAGE) if NAME.fullmatch(row[0])}
    assert named | STATUS_NAMES == NAMES | STATUS_NAMES


def test_every_reason_of_a_drop_is_explained() -> None:
    engine = {counter.name.lower() for counter in Counter if counter.name.startswith("DROP_")}
    port = {f"drop_{reason.name.lower()}" for reason in Drop} | {"drop_receive_buffer"}
    assert engine | port == set(re.findall(r"\bdrop_\w+", PAGE.split("## Packets")[1]))


def test_every_name_of_the_command_is_in_a_test() -> None:
    """Statuses are provoked one by one in tests/robustness/test_every_status.py."""
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert {name for name in NAMES if not re.search(rf"\b{name}\b", text)} == set()


def test_path_too_long_for_a_socket(state_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = state_root / ("x" * 100)
    long.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with pytest.raises(ToolError, match=r"BAD_PATH: .*XDG_RUNTIME_DIR"):
        FabricState("f").create(Plan("f", Shape(1, 1)).preview())


@pytest.mark.process
def test_command_of_the_system_that_fails() -> None:
    fabric = Plan("f", Shape(1, 1)).preview()
    with pytest.raises(ToolError, match=r"COMMAND_FAILED: .*false"):
        fault_kinds.inside(fabric, fabric.devices[0].host, "false")


def test_defect_of_the_command() -> None:
    error = output._unforeseen(ZeroDivisionError("by zero"))
    assert str(error).startswith("INTERNAL_ERROR: ZeroDivisionError: by zero; report")
    assert error.exit_code == 1


def test_simulation_that_breaks_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_run: ScenarioRun) -> None:
        raise AssertionError("a slot serves two positions")

    monkeypatch.setattr(ScenarioRun, "report", broken)
    found = CliRunner().invoke(app.app, ["sim", "--fanout", "2", "--bytes", "8K"])
    assert found.exit_code == 1
    assert "SIMULATION_FAILED: a slot serves two positions" in found.stderr
