"""No node is more than stale_max ahead of the slowest: in schedules with loss, delay, pauses, deaths and joins.

Some hundred schedules by default; 100,000 with FANIN_TEST_TRAINING=full (`make training`).
"""

import os
from concurrent.futures import ProcessPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin_train.staleness.messages import Rules, VectorClock, by_synchronisation, repaired
from fanin_train.staleness.node import Node
from fanin_train.staleness.simulation.cluster import BoundBroken, Cluster
from fanin_train.staleness.simulation.scenario import Network, Pauses, Scenario
from tests.training.staleness.schedules import schedule

FULL = os.environ.get("FANIN_TEST_TRAINING") == "full"
COUNT, BATCH = (100_000, 500) if FULL else (90, 90)


def run_schedules(first: int, count: int) -> tuple[int, int]:
    """Each keeps the bound, and the repaired form does all iterations. Returns how many ran, and met the bound."""
    used = 0
    for seed in range(first, first + count):
        scenario, rules = schedule(seed)
        cluster = Cluster(scenario, rules)
        cluster.run()
        used += cluster.largest_gap == rules.stale_max
        assert not rules.clocks or cluster.is_complete(), f"schedule {seed} does not end"
    return count, used


@pytest.mark.process
def test_schedules_keep_the_bound() -> None:
    """The full number in parallel, the sample in sequence."""
    firsts = range(0, COUNT, BATCH)
    if len(firsts) == 1:
        done = [run_schedules(0, BATCH)]
    else:
        with ProcessPoolExecutor() as pool:
            done = list(pool.map(run_schedules, firsts, [BATCH] * len(firsts)))
    assert sum(count for count, _ in done) == COUNT
    assert sum(used for _, used in done) > COUNT // 4, "the schedules do not come near the bound"


@pytest.mark.parametrize("form", [by_synchronisation, repaired])
def test_the_check_finds_a_node_that_is_too_far_ahead(form: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than the bound is noticed: the schedules above can fail."""
    assert callable(form)
    monkeypatch.setattr(Node, "is_within_bound", lambda node: node.order - node.global_order <= node.rules.stale_max)
    scenario = Scenario(nodes=3, pauses=Pauses(slow=(0,), slow_factor=30), duration=10, last=10)
    with pytest.raises(BoundBroken, match="order and finished are"):
        Cluster(scenario, form(2)).run()


@settings(max_examples=30)
@given(
    nodes=st.integers(1, 4),
    stale_max=st.integers(0, 3),
    loss=st.sampled_from((0.0, 0.2)),
    jitter=st.sampled_from((0.0, 2.0)),
    form=st.sampled_from((by_synchronisation, repaired)),
    seed=st.integers(0, 1000),
)
def test_small_worlds_finish(nodes: int, stale_max: int, loss: float, jitter: float, form: object, seed: int) -> None:
    """The repaired forms do all their iterations, also if a fifth of the messages is lost."""
    assert callable(form)
    rules: Rules = form(stale_max)
    network = Network(latency=0.01, jitter=jitter, loss=loss)
    cluster = Cluster(Scenario(nodes, 0.1, network, Pauses(0.1), duration=600, last=5, seed=seed), rules)
    cluster.run()
    assert cluster.is_complete()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20))))
def test_a_clock_never_goes_back(advances: list[tuple[int, int]]) -> None:
    clock, before = VectorClock(range(3)), 0
    for rank, order in advances:
        clock.advance(rank, order)
        assert clock.minimum() >= before
        before = clock.minimum()
    assert 3 not in clock
    highest = {rank: max((order for each, order in advances if each == rank), default=0) for rank in range(3)}
    assert clock.entries() == highest
