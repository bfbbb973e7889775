"""Every test has the right markers, and the table of the rigs is up to date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import rigs

FOLDER = Path(__file__).parent
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


@pytest.mark.parametrize("path", [*rigs.PATHS, *rigs.ALONE_PATHS, *rigs.DEEP, *rigs.QUICK_PROCESSES, *rigs.NOT_QUICK])
def test_path_of_the_table_is_there(path: str) -> None:
    file, _, function = path.partition("::")
    assert (FOLDER.parent / file).exists()
    assert function in (FOLDER.parent / file).read_text() if function else True


@pytest.mark.parametrize("fixture", rigs.FIXTURES)
def test_fixture_of_the_table_is_there(fixture: str) -> None:
    assert re.search(rf"^@pytest\.fixture.*\ndef {fixture}\(", SOURCES, re.M)


def test_page_has_every_folder_and_marker() -> None:
    folders = {path.parent.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/test_*.py")}
    first_cells = set(re.findall(r"^\| `([a-z0-9_]+)`", README, re.M))
    assert folders <= first_cells
    assert {name for name in rigs.MARKERS if f"`{name}`" not in README} == set()
