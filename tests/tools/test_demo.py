"""The demonstration never reports a wrong bit as right."""

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from fanin_tools.demo import accounting, concurrent_jobs, report, sections
from fanin_tools.demo.accounting import LinkTraffic, ResourceUse
from fanin_tools.demo.allreduce import RouteResult, Task, expected_payload, placement_of, routes_of
from fanin_tools.demo.collectives import CollectiveResult
from fanin_tools.demo.expected_traffic import Payload
from fanin_tools.demo.scene import LinkUse, NetworkResult
from fanin_tools.demo.section_result import SectionResult
from fanin_tools.demo.sections import SECTIONS, DemoResult, parse_sections
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.generate import Shape, make
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch.worker_pool import count_wrong_elements, elapsed_seconds, first_failure
from fanin_wire.settings import JobSettings

PREFIX = "127.77.9"
LINKS = {"nic0": LinkTraffic(64, 64, 66, 66)}
TREE, CHUNK = Payload(1 << 20, 1 << 20), 4096


def outcome(wrong: int) -> RouteResult:
    return RouteResult(
        "tree", 2, 4, 64, 1e-3, wrong, ("sum",), {"nic0": Payload(64, 64)}, ResourceUse(LINKS, 3, 256, 0)
    )


def row(wrong: int) -> CollectiveResult:
    return CollectiveResult("gather", 1 << 20, {"tree": 1e-3, "ring": 2e-3}, {"tree": 0, "ring": wrong})


def finding(verified: bool) -> SectionResult:
    return SectionResult("query", "tree", "rank 3 is late", "0 of 64 segments", verified)


def network(wrong: int) -> NetworkResult:
    links = (LinkUse("nic0", "switch", 4, 4, Payload(16384, 16384), Payload(16384, 16384)),)
    return NetworkResult("offloading switch", "tree", True, 1e-3, wrong, 12, links)


GOOD = DemoResult([outcome(0)], [row(0)], [finding(True)], [network(0)])
BAD = [
    DemoResult([outcome(0)], [row(0)], [finding(True)], [network(0), network(1)]),
    DemoResult([outcome(0), outcome(1)], [row(0)], [finding(True)]),
    DemoResult([outcome(0)], [row(0), row(1)], [finding(True)]),
    DemoResult([outcome(0)], [row(0)], [finding(True), finding(False)]),
]


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("shown", [GOOD, *BAD])
def test_a_wrong_bit_fails(state_root, monkeypatch: pytest.MonkeyPatch, options: list[str], shown: DemoResult) -> None:
    running = Running(make("demo", Shape(2), PREFIX), state=None)  # type: ignore[arg-type]
    monkeypatch.setattr("fanin_tools.fabric.lease.leased", lambda *_: contextlib.nullcontext(running))
    monkeypatch.setattr(sections, "run", lambda *_: shown)
    result = CliRunner().invoke(app, ["demo", *options])
    assert result.exit_code == (0 if shown is GOOD else 1)
    if options:
        assert json.loads(result.stdout)["verified"] == (shown is GOOD)
    else:
        assert ("NO: " in result.stdout) == (shown is not GOOD)


def test_tables_fit_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    wide = SectionResult(
        "reproducible shape", "tree + ring", "16 runs, ranks late", "f32 1 pattern, f16 1 pattern", True
    )
    for table in report.tables(DemoResult([outcome(0)], [row(123)], [wide], [network(123)])):
        Console(width=80).print(table)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert shown.count("┏") == 6


def expected(shape: Shape, route: str, task: Task) -> dict[str, Payload]:
    fabric = make("any", shape, PREFIX)
    return expected_payload(fabric, placement_of(fabric, route), task)


def nics(*payloads: tuple[int, int]) -> dict[str, Payload]:
    return {f"nic{node}": Payload(*payload) for node, payload in enumerate(payloads)}


@pytest.mark.parametrize(
    ("shape", "route", "payloads"),
    [
        (Shape(4), "tree", nics(*[(1200, 1200)] * 4)),
        (Shape(2), "ring", nics((1200, 1200), (1200, 1200))),
        (Shape(4), "ring", nics((1200, 1200), (2400, 1200), (2400, 2400), (1200, 2400))),
        (Shape(4), "local", {}),
        (Shape(2, fanout=(2,), plain_leaves=True), "ring", nics((1200, 1200), (1200, 1200))),
    ],
)
def test_expected_payload_of_one_segment(shape: Shape, route: str, payloads: dict[str, Payload]) -> None:
    """In a ring it starts at node 1: node 0 completes it, and node 3 gets the result last."""
    assert expected(shape, route, Task(1200)) == payloads


def test_expected_payload_of_many_segments_is_shared_out_evenly_round_a_ring() -> None:
    assert expected(Shape(4), "ring", Task(16 * CHUNK)) == nics(*[(24 * CHUNK, 24 * CHUNK)] * 4)


def test_expected_payload_of_a_ring_below_a_switch() -> None:
    """All partials go to its last node, which sends them up, gets the result, and sends it round."""
    found = expected(Shape(6, fanout=(2, 3), plain_leaves=True), "tree", Task(1200))
    once, twice = 1200, 2400
    ring = [(twice, once), (once, twice), (twice, twice)]
    assert found == nics(*ring, *ring)


def test_expected_payload_of_the_switches_of_a_deep_tree() -> None:
    found = expected(Shape(4, fanout=(2, 2)), "tree", Task(1 << 20))
    assert found == nics(*[TREE] * 4) | {"switch-0": TREE, "switch-1": TREE}


def test_expected_payload_of_wide_partials_is_twice_as_much_up() -> None:
    settings = JobSettings(wide=True)
    assert expected(Shape(2), "tree", Task(1200, "f16", settings=settings)) == nics((2400, 1200), (2400, 1200))
    assert expected(Shape(2), "tree", Task(1200, "f16", "max", settings=settings)) == nics((1200, 1200), (1200, 1200))


def test_rows_of_devices_that_a_route_does_not_use_are_left_out() -> None:
    unused = ResourceUse(LINKS | {"switch-0": LinkTraffic(0, 0, 0, 0)}, 3, 256, 0)
    table = report.links([replace(outcome(0), use=unused)])
    assert list(table.columns[1].cells) == ["nic0"]


@pytest.mark.parametrize(
    ("size", "dtype", "rounded"), [(0, "f32", 0), (1, "f32", 4), (4095, "f32", 4096), (4097, "f64", 4104)]
)
def test_sizes_are_rounded_up_to_elements(size: int, dtype: str, rounded: int) -> None:
    assert Task(size, dtype).message_bytes == rounded


@pytest.mark.parametrize(
    ("dtype", "ops"), [("f32", ["min", "max", "mean"]), ("c64", []), ("bool", []), ("f32_i32", [])]
)
def test_further_ops_are_those_that_the_type_has(dtype: str, ops: list[str]) -> None:
    assert Task(64, dtype).further_ops() == ops


@pytest.mark.parametrize(
    ("shape", "routes"),
    [
        (Shape(4), ["tree", "ring", "local"]),
        (Shape(1), ["local"]),
        (Shape(4, direct=True), ["ring", "local"]),
        (Shape(128, 1, fanout=(2, 64)), ["tree", "local"]),
        (Shape(4, fanout=(4,), plain_leaves=True), ["ring", "local"]),
    ],
)
def test_all_routes_are_those_that_the_fabric_has(shape: Shape, routes: list[str]) -> None:
    assert routes_of(make("any", shape, PREFIX), "all") == routes


def test_sections_are_named() -> None:
    assert parse_sections("all") == SECTIONS
    assert parse_sections("query,allreduce") == ("query", "allreduce")
    with pytest.raises(UsageError, match="'quarrel' is not a section"):
        parse_sections("quarrel")


def status(sent: int, probes: int, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    link = {"tx_bytes": sent, "rx_bytes": 2 * sent, "tx_payload_bytes": sent // 2, "rx_payload_bytes": sent}
    return {"links": {"a": link, f"{PREFIX}.254": link}, "counters": {"tx_PROBE": probes}, "jobs": jobs}


def test_use_is_the_difference_of_two_snapshots() -> None:
    jobs = [{"jid": 5, "slots": 256, "slots_high_water": 9}, {"jid": 6, "slots": 512, "slots_high_water": 99}]
    before = {"nic0": status(100, 1, []), "switch": status(0, 4, [])}
    after = {"nic0": status(300, 3, jobs), "switch": status(0, 4, jobs[1:])}
    running = Running(make("pair", Shape(1), PREFIX), state=None)  # type: ignore[arg-type]
    use = accounting.between(running, before, after, jid=5)
    assert use == ResourceUse({"nic0": LinkTraffic(200, 400, 400, 800)}, slots=9, lease=256, probes=2)


def test_use_of_a_switch_is_that_of_its_link_up() -> None:
    running = Running(make("deep", Shape(2, fanout=(2, 1)), PREFIX), state=None)  # type: ignore[arg-type]
    before, after = ({device.name: status(sent, 0, []) for device in running.fabric.daemons} for sent in (0, 100))
    use = accounting.between(running, before, after, jid=5)
    assert set(use.links) == {"nic0", "nic1", "switch-0", "switch-1"}
    assert (use.links["nic0"].wire_up, use.links["switch-0"].wire_up) == (200, 100)


def test_shares_are_counted_until_the_first_job_is_through() -> None:
    assert concurrent_jobs.shares([[1, 2, 3, 4], [2, 4, 6, 8]]) == [4 / 6, 2 / 6]


def answer(wrong: list[tuple[int, int]], stopped: Any = None) -> dict[str, Any]:
    return {"wrong": wrong, "stopped": stopped, "start_ns": [10, 100], "end_ns": [20, 130]}


def test_mistakes_of_all_ranks_are_added_up() -> None:
    assert count_wrong_elements([answer([(1, 5)]), answer([]), answer([(1, 2), (7, 1)])]) == {1: 7, 7: 1}


def test_the_error_that_explains_is_told() -> None:
    lost = (3, {"name": "PEER_LOST", "cause": "rank 1", "remedy": "look"})
    mismatch = (3, {"name": "OP_MISMATCH", "cause": "differs", "remedy": "agree"})
    answers = [answer([], lost), answer([], mismatch), answer([], lost)]
    assert first_failure([answer([])]) is None
    with pytest.raises(ToolError, match="OP_MISMATCH: rank 1: differs; agree"):
        count_wrong_elements(answers)


def test_time_runs_from_the_last_start_to_the_last_end() -> None:
    late = answer([]) | {"start_ns": [15, 90], "end_ns": [18, 190]}
    assert elapsed_seconds([answer([]), late]) == pytest.approx([5e-9, 90e-9])
