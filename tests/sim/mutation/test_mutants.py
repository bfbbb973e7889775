"""A check that the sound engine passes catches every mutant: a passing check means something.

Number 0 of each check is the sound engine, from the same machine code as the mutants.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.sim.mutation.build import PACKAGE, MutantInvalid, build, mutated, publish
from tests.sim.mutation.catalogue import MUTANTS
from tests.sim.mutation.mutant import Check, Mutant, explorer

ROOT = Path(__file__).parents[3]
PASSED, FAILED = 0, 1  # as in `trial`
OPTIMISE = "1"  # numba compiles faster so, and 0 can not be cached
NAMES = [mutant.name for mutant in MUTANTS]
DEMANDED = ("one version bit", "N < 2W", "window off by one", "bitmap is not cleared", "result is forgotten", "LOCAL")
DEMANDED += ("slot is freed with the result", "LEAVE for an unknown job", "token", "key", "round trip")
DEMANDED += ("stale RESULT", "POISON", "rounding before the last hop")


class Verdict(NamedTuple):
    code: int
    report: str


class Trials:
    """The verdicts of a running `trial`, read on request."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._lines = process.stdout
        self._verdicts: dict[tuple[int, Check], Verdict] = {}

    def verdict(self, number: int, check: Check) -> Verdict:
        """Wait for the trial of a mutant, or of the sound engine (0), by a check."""
        while (number, check) not in self._verdicts:
            line = self._lines.readline() if self._lines else ""
            assert line, f"the trials have ended without number {number}"
            if line.startswith("["):
                tried, named, code, report = json.loads(line)
                self._verdicts[tried, Check(*named)] = Verdict(code, report)
        return self._verdicts[number, check]


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    """Run all trials in their own process."""
    folder = build(MUTANTS)
    path = os.pathsep.join([str(folder), str(ROOT), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "FANIN_CACHE_DIR": str(folder / "cache"), "NUMBA_OPT": OPTIMISE}
    command = [sys.executable, "-m", "tests.sim.mutation.trial"]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        yield Trials(process)
        process.terminate()


@pytest.mark.process
@pytest.mark.deep
@pytest.mark.parametrize("check", dict.fromkeys(mutant.check for mutant in MUTANTS), ids=lambda check: check.name)
def test_sound_engine_passes(check: Check, trials: Trials) -> None:
    verdict = trials.verdict(0, check)
    assert verdict.code == PASSED, verdict.report


@pytest.mark.process
@pytest.mark.deep
@pytest.mark.parametrize("number", range(1, len(MUTANTS) + 1), ids=lambda number: MUTANTS[number - 1].name)
def test_fault_is_caught(number: int, trials: Trials) -> None:
    mutant = MUTANTS[number - 1]
    verdict = trials.verdict(number, mutant.check)
    print(verdict.report)
    assert verdict.code == FAILED, verdict.report
    assert mutant.report in verdict.report


def test_list_of_mutants_is_complete() -> None:
    assert len(MUTANTS) >= 20
    assert len(set(NAMES)) == len(NAMES)
    for words in DEMANDED:
        assert any(words in name for name in NAMES), words


def test_of_two_runs_at_once_the_faster_one_makes_the_package(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "fanin_nic").mkdir(parents=True)
        publish(tmp_path / name, tmp_path / "made")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    with pytest.raises(FileNotFoundError):
        publish(tmp_path / "nothing", tmp_path / "other")


def test_every_mutant_can_be_made() -> None:
    for file in sorted({mutant.file for mutant in MUTANTS}):
        text = (PACKAGE / file).read_text()
        assert mutated(file, text, MUTANTS).count("mutant_is(") == sum(each.file == file for each in MUTANTS), file


def test_mutants_that_can_not_be_made() -> None:
    """A change of the engine that affects the list is noticed."""
    text = "from __future__ import annotations\n\na = 1\nb = 1\n"
    fault = Mutant("a fault", "file.py", "a = 1\n", "a = 1 if MUTANT else 2\n", explorer("tree"), "")
    assert "a = 1 if mutant_is(1) else 2\n" in mutated("file.py", text, [fault])
    for broken in (fault._replace(old="c"), fault._replace(old="= 1"), fault._replace(new="a = 2\n")):
        with pytest.raises(MutantInvalid, match="a fault"):
            mutated("file.py", text, [broken])
    with pytest.raises(MutantInvalid, match="same text"):
        mutated("file.py", text, [fault, fault._replace(old="1\nb")])
