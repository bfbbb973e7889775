"""The scripts as tests of pytest, for the CI of a device: a test with the argument `fanin_script` runs once for each.

    def test_conformance(fanin_script):
        fanin_script()

`--fanin-target` names the device, and for a NIC `--fanin-agent` its agent. A project with its own device overrides the
fixture `fanin_target` instead, and `fanin_profile` for its features.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # every run of pytest loads this module: large imports wait until needed
    from fanin_conform.profile import Profile
    from fanin_conform.script import Script
    from fanin_conform.targets.target import Target

ARGUMENT = "fanin_script"
OPTIONS: dict[str, tuple[str | int, str]] = {  # default and help, by name
    "--fanin-target": ("engine", "engine, engine-nic, udp://ADDRESS, or nic://ADDRESS"),
    "--fanin-agent": ("", "what works a NIC as its host does: HOST:PORT, or a command"),
    "--fanin-local": ("", "first address of the tester"),
    "--fanin-group": ("", "multicast address of the device's results, if it has one"),
    "--fanin-profile": ("", "what the device implements: a file in TOML, or the name of a shipped profile"),
    "--fanin-seed": (1, "seed of all random numbers"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fanin", "conformance of a Fanin device")
    for name, (default, text) in OPTIONS.items():
        group.addoption(name, default=default, type=type(default), help=text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if ARGUMENT in metafunc.fixturenames:
        from fanin_conform import suite

        scripts = suite.chosen([], _stated(metafunc.config).role)
        metafunc.parametrize(ARGUMENT, scripts, indirect=True, ids=[script.name for script in scripts])


@pytest.fixture(scope="session")
def fanin_target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The device under test: override it to start yours, with `fanin_conform.targets.opening.open_target`."""
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
    """The features of the device. --fanin-profile has the role, which selects the scripts."""
    return _stated(request.config)


def _stated(config: pytest.Config) -> Profile:
    """The profile of the command line; by default all features of a switch or NIC."""
    from fanin_conform.profile import EVERY_NIC, EVERYTHING, load
    from fanin_conform.targets.opening import is_nic
    from fanin_wire.settings import InvalidSetting

    place = config.option.fanin_profile
    if not place:
        return EVERY_NIC if is_nic(config.option.fanin_target) else EVERYTHING
    try:
        return load(place)
    except InvalidSetting as error:
        raise pytest.UsageError(f"{place}: {error.place}: {error.cause}; {error.remedy} (--fanin-profile)") from None


@pytest.fixture(scope="session")
def _silence() -> list[str]:
    """Why all later scripts fail: nothing answered the first, and each would wait as long."""
    return []


@pytest.fixture
def fanin_script(
    request: pytest.FixtureRequest, fanin_target: Target, fanin_profile: Profile, _silence: list[str]
) -> Callable[[], None]:
    """Runs one script: fails with its packets and demands, or skips it if the device lacks a feature."""
    from fanin_conform import report, suite
    from fanin_conform.listener import NoFaninDevice

    script: Script = request.param
    seed = request.config.option.fanin_seed

    def run() -> None:
        verdicts: list[suite.Verdict] = []
        try:
            if not _silence:
                verdicts = suite.run(fanin_target, [script], seed, lambda verdict: None, fanin_profile)
        except NoFaninDevice as error:
            _silence.append(f"NO_DEVICE: no Fanin device answers at {error}; start it, or correct --fanin-target")
        if _silence:
            pytest.fail(_silence[0], pytrace=False)
        (verdict,) = verdicts
        if verdict.outcome == suite.NOT_RUN:
            pytest.skip(verdict.text)
        if verdict.outcome == suite.FAILED:
            pytest.fail(report.failure_text(verdict, lambda _: _again(request)), pytrace=False)

    return run


def _again(request: pytest.FixtureRequest) -> str:
    """The command that repeats a test. `fanin conform` might not find a device from a fixture."""
    values = {name: request.config.getoption(name) for name in OPTIONS}
    given = [word for name, value in values.items() if value != OPTIONS[name][0] for word in (name, str(value))]
    return shlex.join(["pytest", *given, request.node.nodeid])
