"""The models of shared memory hold, and spin finds the fault of each broken variant."""

import re

import pytest

from tests.sim.model_check.models import MODELS, RUNS, SOUND, ModelFailed, Run, check, missing_tools, outcome

QUICK = [run for run in RUNS if run.quick]


def title(run: Run) -> str:
    return f"{run.model} {run.definitions}".strip()


@pytest.mark.process
@pytest.mark.deep
@pytest.mark.skipif(bool(missing_tools()), reason=f"spin and gcc (missing: {', '.join(missing_tools())})")
@pytest.mark.parametrize("run", QUICK, ids=title)
def test_search(run: Run) -> None:
    seen = check(run)
    print(f"\n{title(run)}: {seen.result}, {seen.states} states")
    assert seen.result == run.result, seen.output
    if run.result == SOUND:
        assert seen.states > 1000


@pytest.mark.process
@pytest.mark.skipif(bool(missing_tools()), reason=f"spin and gcc (missing: {', '.join(missing_tools())})")
def test_model_that_can_not_be_compiled() -> None:
    with pytest.raises(ModelFailed, match="undeclared"):
        check(RUNS[0]._replace(definitions="REQUESTS=nothing"))


def test_search_that_was_not_complete_is_no_result() -> None:
    """A search that ran out of depth or memory must not pass for a proof."""
    said = "State-vector 1 byte, depth reached 9, errors: 0\n 12 states, stored\n 34 transitions (= visited+matched)\n"
    assert outcome(said)[:3] == (SOUND, 12, 34)
    for trouble in ("error: max search depth too small", "Warning: Search not completed"):
        with pytest.raises(ModelFailed):
            outcome(f"{trouble}\n{said}")
    with pytest.raises(ModelFailed):
        outcome("")


@pytest.mark.parametrize(("model", "count"), [("queues", 15), ("remote", 8)])
def test_every_barrier_has_a_fault(model: str, count: int) -> None:
    """For each barrier that a model names, some search omits it and finds the fault."""
    text = (MODELS / f"{model}.pml").read_text()
    barriers = set(re.findall(r"^#ifndef (\w+)\n#define \w+ 1 +/\*", text, re.MULTILINE))
    assert len(barriers) == count
    faults = {word for run in RUNS if run.model == model and run.result != SOUND for word in run.definitions.split()}
    assert {f"{barrier}=0" for barrier in barriers} <= faults
