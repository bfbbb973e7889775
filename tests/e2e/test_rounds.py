"""Rounds of faults by chance: every rank has a right result or a named error, and nothing is left."""

from __future__ import annotations

import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.faults import kinds, rounds
from fanin_tools.faults.rounds import Rounds
from fanin_tools.faults.tally import Tally
from tests.e2e.fabrics import Bench


def assert_clean(tally: Tally) -> None:
    """Whatever happened ended as it must."""
    assert (tally.wrong, tally.hangs, dict(tally.leaks), tally.findings) == (0, 0, {}, [])
    assert tally.rounds == sum(tally.faults.values()) > 0
    assert tally.results + sum(tally.errors.values()) > 0
    assert set(tally.errors) <= {"PeerLost", "DeviceLost"}


@pytest.fixture(autouse=True)
def short_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a round takes no longer than its fault."""
    monkeypatch.setattr(rounds, "MEBIBYTES", (1,))


def test_rounds(bench: Bench) -> None:
    """The fixture `bench` gives a state folder of the test's own."""
    tally = rounds.run(2.0, 1)
    assert_clean(tally)
    assert tally.as_dict()["rounds"] == tally.rounds


def test_seed_decides_what_happens(bench: Bench) -> None:
    running = bench.up(Shape(kinds.NODES, rounds.RANKS // kinds.NODES, detection=kinds.DETECTION_SECONDS))
    seen = []
    for _ in range(2):
        series = Rounds(running)
        series.play(7)
        assert_clean(series.tally)
        seen.append(series.tally.faults)
    assert seen[0] == seen[1]
