"""Runs the checks of all mutants in the package of `build`: `python -m tests.sim.mutation.trial`.

The tests of the sound engine (number 0) come first. They run in this process, which loads the machine code. Each other
trial runs in a fork of this process, so that trials can not affect each other and load nothing. Each verdict is a line
of
JSON: number, check, exit code, output.
"""

import io
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import NamedTuple

import pytest
from fanin_nic.native.mutant import choose

from fanin_sim.model_check.explorer import Explorer
from fanin_sim.model_check.instances import INSTANCES
from fanin_sim.model_check.rank_programs import Violation
from tests.sim.mutation.catalogue import MUTANTS
from tests.sim.mutation.mutant import Check

AT_ONCE = 2  # processes
MAX_SECONDS = 240  # of a trial: a mutant may never end
PASSED, FAILED, BROKEN = 0, 1, 2  # the check passed, found a fault, could not run
PYTEST = ["-q", "--no-header", "--tb=short", "-p", "no:cacheprovider"]


class Trial(NamedTuple):
    """A check of a mutant. `report`: the file of its output."""

    number: int
    check: Check
    report: str
    deadline: float


class Outcomes:
    """Collects the outcomes of tests, as a plugin of pytest."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: dict[str, str] = defaultdict(str)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A part of a test (its setup, itself, its teardown) has ended."""
        if report.failed:
            self.failed[report.nodeid] += report.longreprtext
        elif report.when == "call":
            self.passed.add(report.nodeid)

    def verdict(self, node: str) -> tuple[int, str]:
        """The exit code and the output of a test, with all its parameters."""
        failures = [text for name, text in self.failed.items() if belongs(name, node)]
        if failures:
            return FAILED, "\n".join(failures)
        return (PASSED, "") if any(belongs(name, node) for name in self.passed) else (BROKEN, f"there is no {node}")


def belongs(name: str, node: str) -> bool:
    return name == node or name.startswith(f"{node}[")


def try_sound_engine() -> Iterator[tuple[int, Check]]:
    """Run all tests on the sound engine, in this process. Yields the remaining trials."""
    checks = list(dict.fromkeys(mutant.check for mutant in MUTANTS))
    tests = [check for check in checks if check.kind == "test"]
    outcomes = Outcomes()
    with redirect_stdout(io.StringIO()):
        pytest.main([*PYTEST, *(check.name for check in tests)], plugins=[outcomes])
    for check in tests:
        say(0, check, *outcomes.verdict(check.name))
    yield from ((0, check) for check in checks if check.kind == "explorer")


def trials() -> Iterator[tuple[int, Check]]:
    """(number, check) of the trials that get their own process."""
    yield from try_sound_engine()
    yield from ((number, mutant.check) for number, mutant in enumerate(MUTANTS, 1))


def perform(number: int, check: Check) -> int:
    """Run one trial. Returns PASSED, FAILED or BROKEN."""
    choose(number)
    if check.kind == "test":
        code = pytest.main([*PYTEST, "-x", check.name])
        return {pytest.ExitCode.OK: PASSED, pytest.ExitCode.TESTS_FAILED: FAILED}.get(pytest.ExitCode(code), BROKEN)
    try:
        print(Explorer(INSTANCES[check.name]).run())
    except Violation as violation:
        print(violation)
        return FAILED
    return PASSED


def begin(number: int, check: Check) -> tuple[int, Trial]:
    """Fork a process for a trial. Returns its process id and the trial."""
    file, path = tempfile.mkstemp(prefix="fanin-mutant-")
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        code = BROKEN
        try:
            os.dup2(file, 1)
            os.dup2(file, 2)
            code = perform(number, check)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(file)
    return process, Trial(number, check, path, time.monotonic() + MAX_SECONDS)


def end(trial: Trial, status: int) -> None:
    with open(trial.report, errors="replace") as file:
        report = file.read()
    os.unlink(trial.report)
    code = os.waitstatus_to_exitcode(status)  # negative: a signal
    if code == -signal.SIGKILL:
        report += f"\nnot ended after {MAX_SECONDS} s"
    say(trial.number, trial.check, code, report)


def say(number: int, check: Check, code: int, report: str) -> None:
    print(json.dumps([number, [*check], code, report]), flush=True)


def main() -> None:
    running: dict[int, Trial] = {}
    for number, check in trials():
        running.update([begin(number, check)])
        while len(running) == AT_ONCE:
            reap(running)
    while running:
        reap(running)


def reap(running: dict[int, Trial]) -> None:
    """Wait a little for trials to end. Kill those beyond their deadline."""
    for process, trial in list(running.items()):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            end(running.pop(process), status)
        elif time.monotonic() > trial.deadline:
            os.kill(process, signal.SIGKILL)
    time.sleep(0.02)


if __name__ == "__main__":
    main()
