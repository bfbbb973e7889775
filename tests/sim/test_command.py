"""`fanin sim`: options in, tables or JSON out."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fanin_tools.cli import app
from fanin_tools.commands.sim import parse_fanout, parse_rate
from fanin_tools.errors import UsageError

SMALL = ["sim", "--fanout", "2x3", "--bytes", "8K", "--chunk", "1024", "--slots", "16"]


def test_tables() -> None:
    done = CliRunner().invoke(app, SMALL)
    assert done.exit_code == 0, done.output
    for part in ("allreduce on 6 nodes", "6 and 3", "top switch", "level", "down"):
        assert part in done.stdout


def test_json() -> None:
    done = CliRunner().invoke(app, [*SMALL, "--collective", "broadcast", "--jobs", "2", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["scenario"]["collective"] == "broadcast"
    assert len(told["report"]["finished"]) == 2
    assert {line["direction"] for line in told["report"]["links"]} == {"up", "down"}
    assert set(told["report"]["occupancy"][0]) == {"time", "top switch", "switches of level 1", "NICs"}


def test_wrong_options_are_refused_by_name() -> None:
    done = CliRunner().invoke(app, [*SMALL, "--op", "minloc"])
    assert done.exit_code == 2
    assert "INVALID_REQUEST" in done.stderr


def test_fanout() -> None:
    assert parse_fanout("4x8x8") == (4, 8, 8)
    assert parse_fanout("direct") == ()
    for wrong in ("", "4x", "x4", "0x4", "4*4"):
        with pytest.raises(UsageError):
            parse_fanout(wrong)


@pytest.mark.parametrize(
    ("text", "bits"), [("100gbit", 10**11), ("2.5G", 2_500_000_000), ("400mbit", 400_000_000), ("0", 0), ("7", 7)]
)
def test_rate(text: str, bits: int) -> None:
    assert parse_rate(text) == bits


def test_wrong_rate() -> None:
    with pytest.raises(UsageError):
        parse_rate("fast")
