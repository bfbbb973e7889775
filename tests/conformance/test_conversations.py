"""Random conversations: the engine and the switch in plain Python agree; a faulty one is found and shrunk."""

import os

import pytest
from typer.testing import CliRunner

from fanin_conform import conversation, suite
from fanin_conform.mutants import MUTANTS, faulty_switch
from fanin_conform.profile import EVERYTHING
from fanin_conform.targets import opening
from fanin_conform.targets.engine import EngineTarget
from fanin_conform.targets.reference import ReferenceTarget
from fanin_tools.cli.app import app

SEEDS = int(os.environ.get("FANIN_TEST_CONVERSATIONS", "6"))


def test_engine_and_reference_say_the_same() -> None:
    found = conversation.search(
        EngineTarget(suite.ADDRESSES), ReferenceTarget(suite.ADDRESSES), range(1000, 1000 + SEEDS)
    )
    assert found is None, str(found)


def test_conversations_have_all_kinds_of_packets() -> None:
    """A conversation without steps would agree with anything."""
    log = []
    for seed in range(4):
        device, reference = ReferenceTarget(suite.ADDRESSES), ReferenceTarget(suite.ADDRESSES)
        talk = conversation.draw(seed)
        both = conversation.Play(device, reference, talk, EVERYTHING)
        assert all(both.take(step) for step in talk.steps)
        log += both.device.tester.log
        both.close()
    for name in ("CONTRIBUTION", "RESULT", "PROBE", "NEED", "WAIT", "STATUS"):
        assert sum(f": {name} " in line for line in log) > 1, name
    assert sum(": CONTRIBUTION " in line for line in log) > 100


@pytest.mark.parametrize("clause", ["7.1-5", "8-17", "7.1-3"])
def test_a_difference_is_shrunk(clause: str) -> None:
    fault = next(each for each in MUTANTS if each.clause == clause)
    with faulty_switch(fault) as kind:
        device, reference = ReferenceTarget(suite.ADDRESSES, kind), ReferenceTarget(suite.ADDRESSES)
        found = conversation.search(device, reference, range(5))
    assert found
    assert len(found.conversation.steps) <= 4, str(found)
    assert "> device: CONTRIBUTION" in str(found) or "> device: PROBE" in str(found)


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    good = CliRunner().invoke(app, ["conform", "--conversations", "2"])
    assert good.exit_code == 0
    assert "2 conversations" in good.stdout
    with faulty_switch(next(each for each in MUTANTS if each.clause == "7.1-3")) as kind:
        monkeypatch.setattr(opening, "open_target", lambda *_, **__: ReferenceTarget(suite.ADDRESSES, kind))
        bad = CliRunner().invoke(app, ["conform", "--conversations", "5", "--seed", "3"])
    assert bad.exit_code == 1
    assert "again: fanin conform --seed 3 --conversations 1\n" in bad.stdout
    assert "\nthe reference to address 0: RESULT " in bad.stdout
