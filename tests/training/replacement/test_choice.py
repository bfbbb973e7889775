"""The choice of a replacement: founding document 004 by its paragraphs, and properties for any cluster."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanin_train.replacement.choice import (
    LITERAL,
    Estimate,
    NotFailed,
    Options,
    RingLost,
    Rule,
    apply,
    choose,
    computation_time,
    neighbours_of,
    replace_all,
    select,
)
from fanin_train.replacement.records import (
    Monitor,
    Node,
    Task,
    UnknownBandwidth,
    UnknownNode,
    UnknownTask,
    WrongRecord,
    pairs_after_failure,
    rounds_of,
)
from tests.training.replacement.records import cluster, fail

TYPES = st.sampled_from(["slow", "A100", "MLU370"])


# ---- Records ----


def test_average_is_the_mean_step_time_of_the_slowest_node() -> None:
    """[97] [98]; and without the failed one, if that was the slowest."""
    monitor, _ = cluster(["A100"] * 3, [])
    monitor.change("r0", step_times=(1.0, 3.0))
    monitor.change("r1", step_times=(4.0, 5.0, 6.0))
    monitor.change("r2", step_times=(9.0, 0.0))
    assert monitor.average_time("t") == 5.0
    assert monitor.average_time("t", without=["r1"]) == 4.5


def test_candidates_live_and_are_idle() -> None:
    """[66] to [68]"""
    monitor, _ = cluster(["A100"], ["slow", "A100"])
    fail(monitor, "p0")
    assert [node.address for node in monitor.candidates()] == ["p1"]
    monitor.add_node(Node("p0", "slow", 4e12))  # it has come back
    assert [node.address for node in monitor.candidates()] == ["p0", "p1"]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Node("a", "A100", 0), WrongRecord),
        (lambda: Node("a", "A100", 1, step_times=(-1.0,)), WrongRecord),
        (lambda: Node("a", "A100", 1, step_times=(math.nan,)), WrongRecord),
        (lambda: Task("t", (), 1, 1), WrongRecord),
        (lambda: Task("t", ("a", "a"), 1, 1), WrongRecord),
        (lambda: Task("t", ("a",), -1, 1), WrongRecord),
        (lambda: Monitor().node("a"), UnknownNode),
        (lambda: Monitor().task("t"), UnknownTask),
        (lambda: Monitor().add_task(Task("t", ("a",), 1, 1)), UnknownNode),
        (lambda: cluster(["A100"], [])[0].add_task(Task("other", ("r0",), 1, 1)), WrongRecord),
        (lambda: Monitor().note_compute_time("t", "A100", 0), WrongRecord),
        (lambda: choose(*cluster(["A100"], []), "r0"), NotFailed),
        (lambda: choose(*cluster(["A100"], ["A100"]), "p0"), NotFailed),
    ],
)
def test_wrong_records_are_named(make, error) -> None:
    with pytest.raises(error):
        make()


def test_step_times_that_nobody_measured() -> None:
    monitor, bandwidths = cluster(["A100"] * 2, ["A100"])
    monitor.change("r0", step_times=())
    monitor.change("r1", step_times=())
    fail(monitor, "r0")
    with pytest.raises(WrongRecord, match="has measured a step"):
        choose(monitor, bandwidths, "r0")


# ---- Times ----


def test_literal_times() -> None:
    """[117]: W / B, the longer of the two: 1 GB over 1 and 0.5 GB/s. [122]: S / FLOP/s: 4 TFLOP at 4 TFLOP/s."""
    monitor, bandwidths = cluster(["A100"] * 3, ["slow"])
    bandwidths.note("p0", "r2", 0.5e9)
    fail(monitor, "r1")
    (found,) = choose(monitor, bandwidths, "r1", LITERAL).estimates
    assert (found.communication, found.computation, found.time) == (2.0, 1.0, 3.0)


def test_ring_moves_more_than_the_text_says() -> None:
    """2 (n - 1) / n times W; the bandwidths are those to the candidate and from it, not inverse."""
    monitor, bandwidths = cluster(["A100"] * 4, ["slow"])
    bandwidths.note("p0", "r0", 1.0)
    bandwidths.note("r2", "p0", 1.0)
    fail(monitor, "r1")
    (found,) = choose(monitor, bandwidths, "r1").estimates
    assert found.communication == 1.5


def test_compute_times_are_those_of_the_candidates_type() -> None:
    """[130]. By the task alone ([118]) they are equal for all candidates."""
    monitor, _ = cluster(["A100"], ["slow", "A100", "MLU370"])
    task = monitor.task("t")
    monitor.note_compute_time("t", "A100", 1.0)
    monitor.note_compute_time("t", "A100", 3.0)
    monitor.note_compute_time("t", "MLU370", 5.0)
    monitor.note_compute_time("other", "slow", 99.0)
    nodes = [monitor.node(address) for address in ("p0", "p1", "p2")]
    assert [computation_time(monitor, task, node, LITERAL) for node in nodes] == [1.0, 2.0, 5.0]
    by_task = Options(key="task")
    assert [computation_time(monitor, task, node, by_task) for node in nodes] == [3.0, 3.0, 3.0]


def test_types_that_were_never_measured_are_not_favoured() -> None:
    """The A100 reaches half of its peak, so the slow node is expected to."""
    monitor, _ = cluster(["A100"], ["slow"])
    task = monitor.task("t")
    monitor.note_compute_time("t", "A100", 2 * task.flop / 19.5e12)
    assert computation_time(monitor, task, monitor.node("p0"), Options()) == pytest.approx(2.0)


# ---- The rule ----


def estimate(address: str, peak: float, time: float) -> Estimate:
    return Estimate(Node(address, "A100", peak), 0.0, time)


def test_rule() -> None:
    """[133]: the least peak of those that are not slower than T_avg; [136]: else the least time; [137]: else none."""
    found = [estimate("a", 9, 1), estimate("b", 3, 2), estimate("c", 1, 3)]
    assert select(found, 2) == (Rule.LEAST_PEAK, found[1])
    assert select(found, 3) == (Rule.LEAST_PEAK, found[2])
    assert select(found, 0.5) == (Rule.LEAST_TIME, found[0])
    assert select([], 2) == (Rule.NONE, None)
    assert select([estimate("b", 3, 2), estimate("c", 3, 1), estimate("a", 3, 2)], 2)[1] == estimate("c", 3, 1)


ESTIMATES = st.lists(st.builds(estimate, st.text("abcd", min_size=1), st.integers(1, 5), st.integers(0, 9)), max_size=8)


@given(ESTIMATES, st.integers(0, 9))
def test_rule_on_any_estimates(found: list[Estimate], average: int) -> None:
    rule, chosen = select(found, average)
    good = [each for each in found if each.time <= average]
    if chosen is None:
        assert rule == Rule.NONE
        assert not found
    elif good:
        assert rule == Rule.LEAST_PEAK
        assert chosen in good
        assert all(chosen.node.peak <= each.node.peak for each in good)
    else:
        assert rule == Rule.LEAST_TIME
        assert all(chosen.time <= each.time for each in found)
    assert select(list(reversed(found)), average)[0] == rule


@given(st.lists(TYPES, min_size=2, max_size=6), st.lists(TYPES, max_size=6), st.data())
def test_replacement_takes_the_failed_position(ring: list[str], pool: list[str], data: st.DataObject) -> None:
    """[78]. The failed node is in no ring, and the others keep their positions."""
    monitor, bandwidths = cluster(ring, pool)
    failed = data.draw(st.sampled_from(monitor.task("t").ring))
    fail(monitor, failed)
    before = monitor.task("t").ring
    choice = choose(monitor, bandwidths, failed)
    assert monitor.task("t").ring == before
    apply(monitor, choice)
    after = monitor.task("t").ring
    if pool:
        assert after == tuple(choice.replacement if each == failed else each for each in before)
        assert monitor.node(str(choice.replacement)).task == "t"
    else:
        assert after == tuple(each for each in before if each != failed)
    assert monitor.node(failed).task is None
    assert list(choice.estimates) == sorted(choice.estimates, key=lambda each: -each.time)


def test_without_a_candidate() -> None:
    """[137] or [80]: null, or a ring of the rest."""
    for options, ring in ((Options(without_candidate="null"), ("r0", "r1", "r2")), (Options(), ("r0", "r2"))):
        monitor, bandwidths = cluster(["A100"] * 3, [])
        fail(monitor, "r1")
        (choice,) = replace_all(monitor, bandwidths, ["r1"], options)
        assert (choice.rule, choice.replacement, monitor.task("t").ring) == (Rule.NONE, None, ring)


def test_candidate_that_can_not_reach_a_neighbour_is_none() -> None:
    monitor, bandwidths = cluster(["A100"] * 3, ["slow", "MLU370"])
    bandwidths.note("r0", "p0", 0.0)
    fail(monitor, "r1")
    assert choose(monitor, bandwidths, "r1").replacement == "p1"


def test_pair_without_a_measurement_is_named() -> None:
    monitor, bandwidths = cluster(["A100"] * 3, ["slow"])
    del bandwidths.of_pairs["r0", "p0"]
    fail(monitor, "r1")
    with pytest.raises(UnknownBandwidth, match="from r0 to p0"):
        choose(monitor, bandwidths, "r1")


# ---- Several failures ----


def test_neighbours_are_the_nearest_that_live() -> None:
    monitor, _ = cluster(["A100"] * 5, [])
    fail(monitor, "r1", "r2", "r4")
    assert neighbours_of(monitor, "t", "r1") == ("r0", "r3")
    assert neighbours_of(monitor, "t", "r4") == ("r3", "r0")
    fail(monitor, "r0")
    assert neighbours_of(monitor, "t", "r1") == ("r3", "r3")
    fail(monitor, "r3")
    with pytest.raises(RingLost):
        neighbours_of(monitor, "t", "r1")


def test_several_failures_one_by_one() -> None:
    """[139]. The replacement of the first is the previous neighbour of the second, which can not use p1 for that."""
    monitor, bandwidths = cluster(["A100"] * 5, ["slow", "MLU370"], step=9.0)
    fail(monitor, "r1", "r2", "r4")
    bandwidths.note("p0", "p1", 0.0)
    choices = replace_all(monitor, bandwidths, ["r1", "r2", "r4"])
    assert [choice.replacement for choice in choices] == ["p0", None, "p1"]
    assert monitor.task("t").ring == ("r0", "p0", "r3", "p1")


def test_two_tasks_compete_for_a_candidate() -> None:
    monitor, bandwidths = cluster(["A100"] * 2, ["A100"])
    for address in ("s0", "s1"):
        monitor.add_node(Node(address, "A100", 19.5e12, step_times=(1.0,)))
        for other in ("p0",):
            bandwidths.note(address, other, 1e9)
            bandwidths.note(other, address, 1e9)
    monitor.add_task(Task("u", ("s0", "s1"), 1000, 1e12))
    fail(monitor, "r0", "s1")
    choices = replace_all(monitor, bandwidths, ["s1", "r0"])
    assert [choice.replacement for choice in choices] == ["p0", None]
    assert (monitor.task("t").ring, monitor.task("u").ring) == (("r1",), ("s0", "p0"))


# ---- What is measured anew ----


def test_only_what_the_choice_looks_at_is_measured_anew() -> None:
    pairs = pairs_after_failure("a", "b", ["x", "y"])
    assert pairs == [("a", "x"), ("x", "b"), ("a", "y"), ("y", "b")]
    assert rounds_of(pairs) == [[("a", "x"), ("y", "b")], [("x", "b"), ("a", "y")]]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(6, 9)).map(lambda pair: tuple(map(str, pair)))))
def test_rounds_have_each_pair_once_and_no_node_twice(pairs) -> None:
    rounds = rounds_of(pairs)
    assert sorted(pair for taken in rounds for pair in taken) == sorted(set(pairs))
    for taken in rounds:
        nodes = [node for pair in taken for node in pair]
        assert len(nodes) == len(set(nodes))
