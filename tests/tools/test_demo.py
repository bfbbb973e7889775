"""What the demonstration concludes from what it measured: a wrong bit must never pass."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from fanin_tools.cli import app
from fanin_tools.demo import accounting, demo
from fanin_tools.demo.accounting import LinkUse, Use
from fanin_tools.demo.demo import Outcome, Task
from fanin_tools.fabric.generate import Shape, make
from fanin_tools.fabric.lifecycle import Running

LINKS = {"nic0": LinkUse(64, 64, 66, 66)}


def outcome(wrong: int) -> Outcome:
    return Outcome("tree", 2, 4, 64, 1e-3, wrong, ("sum",), Use(LINKS, 3, 256, 0))


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(("wrong", "code"), [(0, 0), (1, 1)])
def test_a_wrong_bit_fails(
    state_root, monkeypatch: pytest.MonkeyPatch, options: list[str], wrong: int, code: int
) -> None:
    running = Running(make("demo", Shape(2), "127.77.9"), state=None)  # type: ignore[arg-type]
    monkeypatch.setattr("fanin_tools.fabric.borrow.borrowed", lambda *_: contextlib.nullcontext(running))
    monkeypatch.setattr(demo, "run", lambda *_: [outcome(0), outcome(wrong)])
    result = CliRunner().invoke(app, ["demo", *options])
    assert result.exit_code == code
    if options:
        shown = json.loads(result.stdout)
        assert shown["verified"] == (wrong == 0)
        assert [route["wrong_elements"] for route in shown["routes"]] == [0, wrong]
    else:
        assert ("NO: 1 element" in result.stdout) == bool(wrong)


@pytest.mark.parametrize(
    ("route", "nodes", "payload"), [("tree", 4, 1200), ("ring", 4, 1800), ("ring", 2, 1200), ("local", 1, 0)]
)
def test_expected_payload(route: str, nodes: int, payload: int) -> None:
    assert accounting.expected_payload(route, nodes, 1200) == payload


@pytest.mark.parametrize(
    ("size", "dtype", "rounded"), [(0, "f32", 0), (1, "f32", 4), (4095, "f32", 4096), (4097, "f64", 4104)]
)
def test_sizes_are_rounded_up_to_elements(size: int, dtype: str, rounded: int) -> None:
    assert Task(size, dtype).message_bytes == rounded


def status(sent: int, probes: int, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    link = {"tx_bytes": sent, "rx_bytes": 2 * sent, "tx_payload_bytes": sent // 2, "rx_payload_bytes": sent}
    return {"links": {"a": link, "b": link}, "counters": {"tx_PROBE": probes}, "jobs": jobs}


def test_use_is_the_difference_of_two_snapshots() -> None:
    fabric = make("pair", Shape(1), "127.77.9")
    jobs = [{"jid": 5, "slots": 256, "slots_high_water": 9}, {"jid": 6, "slots": 512, "slots_high_water": 99}]
    before = {"nic0": status(100, 1, []), "switch": status(0, 4, [])}
    after = {"nic0": status(300, 3, jobs), "switch": status(0, 4, jobs[1:])}
    use = accounting.between(Running(fabric, state=None), before, after, jid=5)  # type: ignore[arg-type]
    assert use == Use({"nic0": LinkUse(200, 400, 400, 800)}, slots=9, lease=256, probes=2)
