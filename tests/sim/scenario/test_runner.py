"""Large fabrics: 256 nodes under three levels of switches, and the report."""

from dataclasses import replace

import pytest

from fanin_sim.scenario.report import MAX_SAMPLES
from fanin_sim.scenario.runner import ScenarioRun
from fanin_sim.scenario.scenario import Scenario, ScenarioInvalid

LARGE = Scenario(fanout=(4, 8, 8), nodes=256, size=64 << 10, rate=10**11, seed=3)
SMALL = Scenario(fanout=(2, 3), nodes=6, size=8 << 10, rate=10**10, chunk=1024, slots=16)


def test_256_nodes_under_three_levels() -> None:
    report = ScenarioRun(LARGE).report()
    assert report.switches == 37
    assert report.probes == report.resent == 0
    assert {(line.level, line.direction): line.links for line in report.links} == {
        (level, direction): links for level, links in ((1, 4), (2, 32), (3, 256)) for direction in ("up", "down")
    }
    for line in report.links:
        assert line.payload.least == line.payload.most == LARGE.size
        assert line.wire.least > LARGE.size


def test_occupancy_is_sampled_and_stays_within_the_lease() -> None:
    report = ScenarioRun(replace(LARGE, nodes=64, fanout=(8, 8), size=1 << 20)).report()
    assert report.groups == ["top switch", "switches of level 1", "NICs"]
    assert MAX_SAMPLES // 2 <= len(report.occupancy) < MAX_SAMPLES
    times = [sample.time for sample in report.occupancy]
    assert times == sorted(times)
    assert times[-1] <= report.finished[0]
    uses = [use for sample in report.occupancy for use in sample.use]
    assert all(0 <= use.mean <= use.most <= LARGE.slots for use in uses)
    assert max(use.most for use in uses) == LARGE.slots


def test_equal_jobs_have_equal_shares() -> None:
    report = ScenarioRun(replace(SMALL, jobs=3, size=256 << 10)).report()
    assert sum(report.shares) == pytest.approx(1)
    assert all(share == pytest.approx(1 / 3, abs=0.03) for share in report.shares)


def test_a_reproducible_mode_costs_buffers_not_time() -> None:
    """Each child of a device has a buffer. The lease, the time and the traffic stay the same."""
    quick, ordered = (
        ScenarioRun(replace(SMALL, size=64 << 10, reproducible=mode)).report() for mode in ("none", "run")
    )
    assert ordered.finished == quick.finished
    assert ordered.links == quick.links


def test_same_seed_same_report() -> None:
    def told(seed: int) -> dict:
        report = ScenarioRun(replace(SMALL, loss=0.1, seed=seed)).report().as_dict()
        return {name: value for name, value in report.items() if name != "wall_s"}

    assert told(4) == told(4)
    assert told(4) != told(5)


@pytest.mark.parametrize(
    "changes",
    [
        {"collective": "broadcast"},
        {"collective": "barrier"},
        {"collective": "reduce_scatter", "operation": "MAX", "dtype": "i16"},
        {"collective": "allgather", "ranks_per_node": 3, "loss": 0.02},
        {"route": "ring"},
        {"route": "ring", "fanout": ()},
        {"plain_leaves": True, "loss": 0.02},
        {"reproducible": "run", "dtype": "f32", "loss": 0.02},
        {"reproducible": "shape", "dtype": "bf16", "jobs": 2},
        {"wide": True, "dtype": "f16", "operation": "MEAN"},
        {"rate": 0, "jobs": 3},
    ],
    ids=str,
)
def test_scenarios_with_right_results(changes: dict) -> None:
    """`report` compares every result with its reference."""
    report = ScenarioRun(replace(SMALL, **changes)).report()
    assert len(report.finished) == changes.get("jobs", 1)
    assert report.packets > 0


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"collective": "alltoall"}, "collective 'alltoall'"),
        ({"reproducible": "always"}, "reproducible 'always'"),
        ({"route": "star"}, "route 'star'"),
        ({"fanout": ()}, "route tree needs switches"),
        ({"nodes": 7}, "7 nodes do not fit"),
        ({"fanout": (65,), "nodes": 65}, "65 children"),
        ({"fanout": (70,), "nodes": 70, "route": "ring"}, "a ring of 70 nodes"),
        ({"operation": "LAND"}, "LAND of f32"),
        ({"dtype": "f8"}, "'f8' is not supported"),
        ({"chunk": 1000}, "chunk 1000 is not a power of two"),
        ({"size": 20, "collective": "allgather"}, "20 bytes"),
        ({"rate": 100}, "links of 100 bit/s for segments of 1024 "),
        ({"rate": 100_000, "size": 1 << 20}, "messages of 1048576 bytes"),
        ({"delay": 10_000_000_000}, "a delay of 10000000000 ns"),
    ],
    ids=str,
)
def test_contradictions_are_refused(changes: dict, complaint: str) -> None:
    with pytest.raises(ScenarioInvalid, match=complaint):
        ScenarioRun(replace(SMALL, **changes))
