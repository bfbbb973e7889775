"""Rounds of faults by chance: every rank has a right result or a named error, and nothing is left."""

from __future__ import annotations

from fanin_tools.fabric.generate import Shape
from fanin_tools.faults import rounds
from fanin_tools.faults.rounds import Rounds, Tally
from tests.e2e.fabrics import Bench


def assert_clean(tally: Tally) -> None:
    """Whatever happened ended as it must."""
    assert (tally.wrong, tally.hangs, tally.leaks) == (0, 0, 0)
    assert tally.rounds == sum(tally.faults.values()) > 0
    assert tally.results + sum(tally.errors.values()) > 0
    assert set(tally.errors) <= {"PeerLost", "DeviceLost"}


def test_rounds(bench: Bench) -> None:
    """The fixture `bench` gives a state folder of the test's own."""
    tally = rounds.run(2.0, 1)
    assert_clean(tally)
    assert tally.as_dict()["rounds"] == tally.rounds


def test_seed_decides_what_happens(bench: Bench) -> None:
    running = bench.up(Shape(rounds.NODES, rounds.RANKS // rounds.NODES, detection=rounds.DETECTION_SECONDS))
    seen = []
    for _ in range(2):
        series = Rounds(running, 7)
        series.play()
        assert_clean(series.tally)
        seen.append(series.tally.faults)
    assert seen[0] == seen[1]
