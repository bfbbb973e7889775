"""Rounds of faults by chance: every rank has a right result or a named error, and nothing is left."""

from __future__ import annotations

import pytest

from fanin_tools.stress.faults import rounds
from fanin_tools.stress.faults.tally import Tally
from tests.e2e.fabrics import Bench


def assert_clean(tally: Tally) -> None:
    """Whatever happened ended as it must."""
    assert (tally.wrong, tally.hangs, dict(tally.leaks), tally.findings) == (0, 0, {}, [])
    assert tally.rounds == sum(tally.faults.values()) > 0
    assert tally.results + sum(tally.errors.values()) > 0
    assert set(tally.errors) <= {"PeerLost", "DeviceLost"}
    assert tally.met == tally.rounds


def test_rounds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault comes soon after the first request. The fixture `bench` gives a state folder of the test's own."""
    monkeypatch.setattr(rounds, "MEBIBYTES", (16,))
    monkeypatch.setattr(rounds, "LONGEST_DELAY", 0.01)
    tally = rounds.run(2.0, 1)
    assert_clean(tally)
    assert tally.as_dict()["rounds"] == tally.rounds
