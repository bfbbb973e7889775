"""The scripts as tests of pytest, for the CI of a device: a test with the argument `fanin_script` runs once for each.

    def test_conformance(fanin_script):
        fanin_script()

`--fanin-target` names the device, and for a NIC `--fanin-agent` what works it. A project that starts its device in a
fixture gives it as `fanin_target` instead, and what it implements as `fanin_profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # pytest loads this module for each of its runs: what is large is loaded when it is needed
    from fanin_conform.profile import Profile
    from fanin_conform.script import Script
    from fanin_conform.targets.target import Target

ARGUMENT = "fanin_script"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line."""
    group = parser.getgroup("fanin", "conformance of a Fanin device")
    group.addoption("--fanin-target", default="engine", help="engine, engine-nic, udp://ADDRESS, or nic://ADDRESS")
    group.addoption("--fanin-agent", default="", help="what works a NIC as its host does: HOST:PORT, or a command")
    group.addoption("--fanin-local", default="", help="first address of the tester")
    group.addoption("--fanin-group", default="", help="multicast address of the device's results, if it has one")
    group.addoption("--fanin-profile", default="", help="what the device implements, a file in TOML")
    group.addoption("--fanin-seed", type=int, default=1, help="seed of all random numbers")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each script."""
    if ARGUMENT in metafunc.fixturenames:
        from fanin_conform import suite

        scripts = suite.chosen([], _stated(metafunc.config).role)
        metafunc.parametrize(ARGUMENT, scripts, indirect=True, ids=[script.name for script in scripts])


@pytest.fixture(scope="session")
def fanin_target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The device under test: override it to start yours. `fanin_conform.targets.opening.open_target` makes one."""
    from fanin_conform import suite
    from fanin_conform.targets.opening import TargetInvalid, open_target
    from fanin_wire.agent import AgentError

    options = request.config.option
    try:
        where = options.fanin_target, options.fanin_local
        target = open_target(*where, suite.ADDRESSES, options.fanin_group, options.fanin_agent)
    except TargetInvalid as error:
        raise pytest.UsageError(f"{error}; {error.remedy}") from None
    except AgentError as error:
        raise pytest.UsageError(f"{error}; start the agent, or correct --fanin-agent") from None
    yield target
    target.close()


@pytest.fixture(scope="session")
def fanin_profile(request: pytest.FixtureRequest) -> Profile:
    """What the device implements. Its role, by which scripts are chosen, is that of --fanin-profile."""
    return _stated(request.config)


def _stated(config: pytest.Config) -> Profile:
    """The profile of the command line; without one everything that a switch, or a NIC, can have."""
    from fanin_conform.profile import EVERY_NIC, EVERYTHING, read
    from fanin_conform.targets.opening import is_nic
    from fanin_wire.settings import InvalidSetting

    file = config.option.fanin_profile
    if not file:
        return EVERY_NIC if is_nic(config.option.fanin_target) else EVERYTHING
    try:
        return read(Path(file).read_text())
    except InvalidSetting as error:
        raise pytest.UsageError(f"{file}: {error.place}: {error.cause}; {error.remedy}") from None
    except OSError as error:
        raise pytest.UsageError(f"{file}: {error.strerror}; give a file in TOML (--fanin-profile)") from None


@pytest.fixture
def fanin_script(request: pytest.FixtureRequest, fanin_target: Target, fanin_profile: Profile) -> Callable[[], None]:
    """Runs one script: fails with its packets and demands, or skips what the device does not implement."""
    from fanin_conform import report, suite

    script: Script = request.param
    seed = request.config.option.fanin_seed

    def run() -> None:
        (verdict,) = suite.run(fanin_target, [script], seed, lambda verdict: None, fanin_profile)
        if verdict.outcome == suite.NOT_RUN:
            pytest.skip(verdict.text)
        if verdict.outcome == suite.FAILED:
            pytest.fail(report.failure_text(verdict, fanin_target.name, seed), pytrace=False)

    return run
