"""Options of all tests: `--no-skips` makes a skip a failure; a summary lists what this machine lacks."""

import os
import signal
from collections import defaultdict
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# No test asserts a time: a first call compiles, and a busy or emulated processor is slow to make data.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
pytest_plugins = ["tests.fabric.fixtures", "tests.rigs"]

SKIPS: dict[str, list[str]] = defaultdict(list)  # what is missing -> the tests that lack it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a test that is skipped is a failure")


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what runs in its background with SIGINT ignored, and what tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Ranks that share an output write whole lines; without a buffer Python writes a line and its end one by one.
    os.environ.pop("PYTHONUNBUFFERED", None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        note_skip(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that is skipped as a whole."""
    report = yield
    if report.skipped:
        note_skip(collector.config, report)
    return report


def note_skip(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport) -> None:
    """Put the reason into the report; with --no-skips make it a failure that names the test and the reason."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    report.lacks = reason  # travels to the process that prints the summary, where pytest-xdist has several
    if config.getoption("--no-skips"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, which --no-skips forbids; it lacks: {reason}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    remember_skip(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    remember_skip(report)


def remember_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """For the summary."""
    if hasattr(report, "lacks"):
        SKIPS[report.lacks].append(report.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if SKIPS:
        terminalreporter.section("what was skipped, and what it lacks")
    for reason, nodes in sorted(SKIPS.items()):
        files = sorted({node.partition("::")[0] for node in nodes})
        terminalreporter.write_line(f"{len(nodes):4} lack: {reason} ({', '.join(files)})")
