"""Features missing in a device's profile are not run, but named."""

import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanin_conform import suite
from fanin_conform.profile import load, read, shipped
from fanin_conform.targets.reference import ReferenceTarget
from fanin_tools.cli.app import app
from fanin_wire.settings import InvalidSetting
from tests.conformance.addresses import loopback_block

PAGE = Path(__file__).parents[2] / "docs/conformance.md"
SMALL = """
role = "switch"
operations = ["SUM", "MAX"]
types = ["f32", "i32", "i8"]
children = 8
middle = false
ahead = false
wide = false
reproducible = false
shares = false
"""


def verdicts(text: str, lanes: int = 1) -> dict[str, suite.Verdict]:
    target = ReferenceTarget(suite.ADDRESSES, lanes=lanes)
    found = suite.run(target, suite.chosen([]), 1, lambda verdict: None, read(text))
    assert [(each.script.name, each.text) for each in found if each.outcome == suite.FAILED] == []
    return {each.script.name: each for each in found}


def test_a_small_device() -> None:
    found = verdicts(SMALL)
    for name, lacks in (
        ("arithmetic/prod", "PROD"),
        ("arithmetic/wide_partials", "wide jobs"),
        ("arithmetic/the_order_of_the_bits", "reproducible jobs"),
        ("limits/sixty_four_children", "64 children"),
        ("lanes/the_last_lane", "2 lanes"),
        ("segments/the_mean_is_divided_by_the_ranks", "MEAN of f32"),
    ):
        assert (found[name].outcome, found[name].text) == (suite.NOT_RUN, f"the device has no {lacks}")
    assert found["arithmetic/sum"].outcome == suite.PASSED
    assert {"f64", "f16", "c64"} < set(found["arithmetic/sum"].left_out)
    assert "f32" not in found["arithmetic/sum"].left_out
    assert found["duplicates/stale_positions"].outcome == suite.PASSED


def test_types_that_are_left_out_take_no_positions() -> None:
    """Slots are served in turn: an unused position would hold up the next lease."""
    types = ["f32", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"]
    found = verdicts(f"types = {json.dumps(types)}\nlanes = 1\nmiddle = false\nahead = false")
    assert "f64" in found["arithmetic/the_only_data"].left_out


def test_lanes_are_tried_where_there_are_any() -> None:
    found = verdicts("lanes = 3\nmiddle = false\nahead = false", lanes=3)
    assert {each.outcome for name, each in found.items() if name.startswith("lanes/")} == {suite.PASSED}


@pytest.mark.parametrize("text", ['role = "hub"', "lanes = 0", 'types = ["f31"]', 'operations = ["sum"]', "x = 1", "?"])
def test_what_is_no_profile(text: str) -> None:
    with pytest.raises(InvalidSetting):
        read(text)


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    done = CliRunner().invoke(app, ["conform", "--profile", str(file), "--json", "arithmetic"])
    assert done.exit_code == 0
    outcomes = {each["script"]: each for each in json.loads(done.stdout)["scripts"]}
    assert outcomes["arithmetic/prod"]["outcome"] == "not run"
    assert "u64" in outcomes["arithmetic/max"]["left_out"]
    file.write_text("types = 3")
    for wrong in (str(file), str(tmp_path / "none.toml")):
        assert CliRunner().invoke(app, ["conform", "--profile", wrong]).exit_code == 2


@pytest.mark.process
def test_a_shipped_profile_fits_a_switch_that_one_starts(tmp_path: Path) -> None:
    """By the two commands of `python -m fanin_reference` and the page: no script fails for a missing feature."""
    address = f"{loopback_block()}.100"
    with subprocess.Popen([sys.executable, "-m", "fanin_reference", address], stdout=subprocess.PIPE) as switch:
        try:
            assert switch.stdout
            _, _, command = switch.stdout.readline().decode().strip().partition("; fanin ")
            assert command == f"conform --target udp://{address} --profile reference"
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(tmp_path)
                options = [*command.split(), "--json", "middle", "ahead", "shares", "lanes"]
                done = CliRunner().invoke(app, options)
        finally:
            switch.terminate()
    outcomes = Counter(each["outcome"] for each in json.loads(done.stdout)["scripts"])
    assert (done.exit_code, outcomes["failed"], outcomes["passed"] > 2) == (0, 0, True)


def test_every_shipped_profile_can_be_named() -> None:
    """On the command line, in the page, and in the package."""
    assert {"switch", "reference", "nic", "nic-lanes", "rocev2"} == set(shipped())
    for name in shipped():
        assert load(name).role.partition("-")[0] in ("switch", "nic", "rocev2")
        assert f"| `{name}` |" in PAGE.read_text()
    data = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "profiles/*.toml" in data["fanin_conform"]
    done = CliRunner().invoke(app, ["conform", "--profile", "nonsense"])
    assert done.exit_code == 2
    assert f"give a file in TOML, or one of {', '.join(shipped())}" in done.stderr


def test_the_profile_of_the_page() -> None:
    (block,) = re.findall(r'```toml title="profile.toml"\n(.*?)```', PAGE.read_text(), re.S)
    profile = read(block)
    assert (profile.types, profile.children, profile.reproducible) == (("f32", "bf16", "i32"), 16, False)
