"""The simulation of failures is seeded, and raises if a choice is not the one of the text."""

import pytest

from fanin_train.replacement import simulation
from fanin_train.replacement.choice import Options, Rule

FAILURES = 100


def test_rule_keeps_the_step_time_with_less_than_the_fastest() -> None:
    by_rule, fastest, any_node = (
        simulation.simulate(simulation.POLICIES[name], FAILURES)
        for name in ("the text, with the default options", "take the fastest", "take any")
    )
    assert by_rule.peak < fastest.peak
    assert by_rule.ratio < any_node.ratio
    assert by_rule == simulation.simulate(simulation.POLICIES["the text, with the default options"], FAILURES)


def test_choice_that_is_not_the_text_s_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fanin_train.replacement.choice.select", lambda found, average: (Rule.LEAST_PEAK, found[0]))
    with pytest.raises(AssertionError, match="not what the text says"):
        simulation.simulate(simulation.as_text(Options()), FAILURES)
