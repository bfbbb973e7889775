"""Rounds of random faults: every rank has a right result or a named error, and nothing is left."""

import pytest

from fanin_tools.stress.faults import rounds
from fanin_tools.stress.tally import Tally, Work
from tests.e2e.fabrics import Bench


def assert_clean(tally: Tally) -> None:
    """Every fault has ended in a right result or a named error."""
    assert (dict(tally.violations), tally.findings) == ({}, [])
    assert tally.work[Work.FAULT_ROUNDS] == sum(tally.faults.values()) > 0
    assert tally.work[Work.RIGHT_RESULTS] + sum(tally.errors.values()) > 0
    assert set(tally.errors) <= {"PeerLost", "DeviceLost"}
    assert tally.work[Work.FAULTS_DURING_WORK] == tally.work[Work.FAULT_ROUNDS]


def test_rounds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault comes soon after the first request. `bench` gives the test its own state folder."""
    monkeypatch.setattr(rounds, "MEBIBYTES", (16,))
    monkeypatch.setattr(rounds, "MAX_DELAY_SECONDS", 0.01)
    tally = Tally(1)
    with rounds.fabric() as running:
        rounds.FaultRounds(running, tally).run(2.0, 1)
    assert_clean(tally)
    assert tally.as_dict()["fault_rounds"] == tally.work[Work.FAULT_ROUNDS]
