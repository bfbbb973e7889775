"""A query gets one completion at once, which has counted every lane once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin_wire.abi import Status, WqeFlag, WqeOpcode
from tests.lanes.rig import CHUNK, QP, QUEUE, Rig

LONG = 40 * CHUNK  # for two lanes: 20 segments each


def answer(rig: Rig, lane: int, query: np.void, done: int = 0, **members: int) -> None:
    """A lane reports that `done` segments of a message are done and the rest is not; none: an unknown message."""
    status = Status.PENDING if done else Status.SUCCESS
    rig.done(lane, query, positions=done, byte_length=done * CHUNK, status=status, **members)


def test_all_lanes_are_asked_and_added_up(make_rig):
    rig = make_rig(2)
    rig.post(LONG, mid=4)
    assert rig.query(4, wr_id=99, jid=3) == 1
    for lane in (0, 1):
        _, query = rig.parts(lane)
        assert not len(rig.completions())
        answer(rig, lane, query, 3 + lane)
    (cqe,) = rig.completions()
    found = {name: int(cqe[name]) for name in ("wr_id", "opcode", "status", "positions", "byte_length", "mid", "qp")}
    assert found == {
        "wr_id": 99, "opcode": WqeOpcode.QUERY, "status": Status.PENDING, "positions": 7, "byte_length": 7 * CHUNK,
        "mid": 4, "qp": QP,
    }  # fmt: skip


def test_the_first_lane_that_names_somebody_is_believed(make_rig):
    rig = make_rig(4)
    rig.post(100 * CHUNK, mid=4)
    rig.query(4)
    queries = [rig.parts(lane)[-1] for lane in range(4)]
    answer(rig, 2, queries[2], 1)
    answer(rig, 1, queries[1], 1, missing=0b10, missing_kind=1)
    answer(rig, 3, queries[3], 1, missing=0b01)
    answer(rig, 0, queries[0], 1)
    (cqe,) = rig.completions()
    assert (cqe["missing"], cqe["missing_kind"]) == (0b10, 1)


def test_an_answer_overtakes_requests(make_rig):
    rig = make_rig(2)
    rig.post(4, mid=1, wr_id=1)
    rig.post(LONG, mid=2, wr_id=2)
    rig.query(2, wr_id=3)
    for lane in (0, 1):
        answer(rig, lane, rig.parts(lane)[-1], 5)
    assert [int(cqe["wr_id"]) for cqe in rig.completions()] == [3]


def test_an_answer_overtakes_fenced_requests(make_rig):
    rig = make_rig(2)
    rig.post(4, mid=1)
    rig.post(LONG, mid=2, flags=WqeFlag.FENCE | WqeFlag.SIGNALED)
    rig.query(2)
    for lane in (0, 1):
        answer(rig, lane, rig.parts(lane)[-1])
    (cqe,) = rig.completions()
    assert (cqe["status"], cqe["positions"], cqe["byte_length"]) == (Status.PENDING, 0, 0)


def test_an_unknown_message_is_not_outstanding(make_rig):
    rig = make_rig(2)
    rig.post(LONG, mid=1)
    rig.query(2)
    for lane in (0, 1):
        answer(rig, lane, rig.parts(lane)[-1])
    (cqe,) = rig.completions()
    assert (cqe["status"], cqe["positions"]) == (Status.SUCCESS, 0)


def test_a_message_that_waits_for_its_turn_to_complete_is_outstanding(make_rig):
    rig = make_rig(2)
    rig.post(4, mid=1)
    rig.post(4, mid=2)
    _, second = rig.parts(0)
    rig.done(0, second)
    rig.query(2)
    for lane in (0, 1):
        answer(rig, lane, rig.parts(lane)[-1])
    (cqe,) = rig.completions()
    assert (cqe["status"], cqe["positions"], cqe["byte_length"]) == (Status.PENDING, 1, 4)


@pytest.mark.parametrize("when", ["before the query", "before its answer", "after its answer"])
def test_a_part_that_comes_back_is_counted_once(make_rig, when):
    """A lane forgets completed parts. It has counted those parts that it answered itself before."""
    rig = make_rig(2)
    rig.post(LONG, mid=4)
    parts = [rig.parts(lane)[0] for lane in (0, 1)]
    if when == "before the query":
        rig.done(0, parts[0])
    rig.query(4)
    queries = [rig.parts(lane)[0] for lane in (0, 1)]
    if when == "before its answer":
        rig.done(0, parts[0])
    if when == "after its answer":
        answer(rig, 0, queries[0], 19)
        rig.done(0, parts[0])
    else:
        answer(rig, 0, queries[0])
    answer(rig, 1, queries[1], 7)
    (cqe,) = rig.completions()
    expected = 19 + 7 if when == "after its answer" else 20 + 7
    assert (cqe["status"], cqe["positions"], cqe["byte_length"]) == (Status.PENDING, expected, expected * CHUNK)


def test_a_message_that_completes_meanwhile_is_completed_first(make_rig):
    rig = make_rig(2)
    rig.post(LONG, mid=4, wr_id=1)
    rig.query(4, wr_id=2)
    (part, query), (other_part, other_query) = rig.parts(0), rig.parts(1)
    answer(rig, 0, query, 19, missing=1)
    rig.done(0, part)
    rig.done(1, other_part)
    answer(rig, 1, other_query)
    assert [(int(cqe["wr_id"]), int(cqe["status"]), int(cqe["missing"])) for cqe in rig.completions()] == [
        (1, Status.SUCCESS, 0),
        (2, Status.SUCCESS, 0),
    ]


def test_failed_query_gets_its_status(make_rig):
    rig = make_rig(2, [])
    rig.query(4)
    for lane in (0, 1):
        rig.done(lane, rig.parts(lane)[0], status=Status.NOT_CONFIGURED)
    (cqe,) = rig.completions()
    assert cqe["status"] == Status.NOT_CONFIGURED


def test_one_query_after_the_other(make_rig):
    rig = make_rig(2)
    assert rig.query(1, wr_id=1) == 1
    assert rig.query(2, wr_id=2) == 0
    assert rig.post(LONG) == 0  # behind it in the ring
    assert not rig.is_waiting()
    for number, taken in ((1, 2), (2, 0)):
        for lane in (0, 1):
            answer(rig, lane, rig.parts(lane)[0])
        assert [int(cqe["wr_id"]) for cqe in rig.completions()] == [number]
        assert rig.split() == taken


def test_a_query_does_not_outlive_its_job(make_rig):
    rig = make_rig(2)
    rig.query(1)
    query = rig.parts(0)[0]
    answer(rig, 0, query)
    rig.splitter.leave(QUEUE)
    rig.splitter.join(QUEUE, [64, 64])
    assert rig.query(2, wr_id=7) == 1
    for lane in (0, 1):
        answer(rig, lane, rig.parts(lane)[0])
    assert [int(cqe["wr_id"]) for cqe in rig.completions()] == [7]


@settings(deadline=None)
@given(schedule=st.lists(st.integers(0, 3), max_size=30))
def test_requests_complete_in_order_whatever_is_asked(schedule):
    """Two messages and two queries on four lanes, answered in any order."""
    rig = Rig(4)
    rig.post(100 * CHUNK, mid=1, wr_id=1)
    rig.query(1, wr_id=10)
    rig.post(100 * CHUNK, mid=2, wr_id=2)
    rig.query(2, wr_id=20)
    waiting: list[list] = [[] for _ in range(4)]
    found = []
    for lane in [*schedule, *(lane for _ in range(8) for lane in range(4))]:
        rig.split()
        waiting[lane] += list(rig.parts(lane))
        if waiting[lane]:
            rig.done(lane, waiting[lane].pop(0))
        found += [int(cqe["wr_id"]) for cqe in rig.completions()]
    assert sorted(found) == [1, 2, 10, 20]
    assert found.index(1) < found.index(2)
    assert found.index(10) < found.index(20)
    rig.close()
