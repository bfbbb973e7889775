"""First impressions of results: errors are red, usual things do not alarm, long output has an end."""

from collections import Counter
from dataclasses import replace

import pytest

from fanin_conform import suite
from fanin_tools.cli import conform, output
from fanin_tools.demo import report
from fanin_tools.demo.section_result import SectionResult
from fanin_tools.demo.sections import DemoResult
from fanin_tools.tap.capture import Tally
from fanin_wire.operations import UnsupportedOperation, operation_by_name

RED, ENDS = "\x1b[1;31m", "\x1b[0m"


@pytest.fixture(autouse=True)
def a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_failed_scripts_are_red(capsys: pytest.CaptureFixture[str]) -> None:
    script = next(iter(suite.chosen([])))
    failed = suite.Verdict(script, suite.FAILED, "expected: a RESULT", ("7.1-1",))
    conform._print([failed], "engine", lambda name: f"fanin conform {name}")
    shown = capsys.readouterr().out
    assert f"{RED}{script.name}: {script.text}{ENDS}" in shown
    assert RED in next(line for line in shown.splitlines() if script.name.partition("/")[0] in line)


def test_no_failure_is_not_red(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table("", ["group", "failed"], [["silence", "0"]], wrong="failed")
    assert RED not in capsys.readouterr().out


def test_capture_of_a_healthy_run_does_not_alarm() -> None:
    usual = Tally(900, 7, 0, Counter(drop_ended=6, drop_duplicate=1))
    assert str(usual) == "900 packets; 7 of them dropped, as usual: drop_ended 6, drop_duplicate 1"
    damaged = Tally(900, 8, 3, Counter(drop_ended=6, drop_icrc=2))
    assert "see docs/errors.md: drop_ended 6, drop_icrc 2; 3 missed, make --buffer larger" in str(damaged)
    assert str(Tally(1)) == "1 packet"


def test_demonstration_has_a_last_line() -> None:
    good = SectionResult("query", "tree", "", "", True)
    assert str(report.last_line(DemoResult(section_results=[good, good]))) == "2 results: every bit is numpy's"
    wrong = replace(good, verified=False)
    assert str(report.last_line(DemoResult(section_results=[good, wrong]))) == "1 of 2 results are wrong"


@pytest.mark.parametrize(("asked", "meant"), [("avg", "mean"), ("add", "sum"), ("maxx", "max"), ("PRODUCT", "prod")])
def test_operation_of_another_name_is_guessed(asked: str, meant: str) -> None:
    with pytest.raises(UnsupportedOperation, match=rf"operation '{asked}' is not supported \({meant}\?\); supported: "):
        operation_by_name(asked)
