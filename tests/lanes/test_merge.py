"""Completions of the lanes become one for each request, in order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin_wire import abi
from fanin_wire.abi import Status
from tests.lanes.rig import CHUNK, QP, QUEUE, Rig

LONG = 40 * CHUNK  # for two lanes


def test_complete_when_all_lanes_are(make_rig):
    rig = make_rig(2)
    rig.post(LONG, wr_id=77, jid=3, mid=4)
    parts = [rig.parts(lane)[0] for lane in (0, 1)]
    rig.done(1, parts[1], jid=3, mid=4)
    assert not len(rig.completions())
    rig.done(0, parts[0], jid=3, mid=4)
    (cqe,) = rig.completions()
    found = {name: int(cqe[name]) for name in ("wr_id", "status", "byte_length", "positions", "jid", "mid", "qp")}
    assert found == {
        "wr_id": 77, "status": 0, "byte_length": LONG, "positions": 40, "jid": 3, "mid": 4, "qp": QP,
    }  # fmt: skip


@settings(deadline=None)
@given(
    sizes=st.lists(st.sampled_from([4, LONG, 200 * CHUNK]), min_size=1, max_size=8),
    schedule=st.lists(st.integers(0, 3), max_size=40),
)
def test_order_is_that_of_the_requests(sizes, schedule):
    rig = Rig(4)
    waiting: list[list] = [[] for _ in range(4)]
    for number, size in enumerate(sizes):
        rig.post(size, wr_id=1000 + number)
    for lane in range(4):
        waiting[lane] += list(rig.parts(lane))
    order = [*schedule, *(lane for lane in range(4) for _ in waiting[lane])]
    found = []
    for lane in order:
        if waiting[lane]:
            rig.done(lane, waiting[lane].pop(0))
            found += [(int(cqe["wr_id"]), int(cqe["byte_length"])) for cqe in rig.completions()]
    assert found == [(1000 + number, size) for number, size in enumerate(sizes)]
    rig.close()


def test_the_first_failure_is_reported_once_all_parts_are_back(make_rig):
    rig = make_rig(2)
    rig.post(LONG)
    parts = [rig.parts(lane)[0] for lane in (0, 1)]
    rig.done(1, parts[1], status=Status.PEER_LOST, missing=0b100, missing_kind=1)
    assert not len(rig.completions())
    rig.done(0, parts[0], status=Status.ABORTED, missing=1)
    (cqe,) = rig.completions()
    assert (cqe["status"], cqe["missing"], cqe["missing_kind"], cqe["byte_length"]) == (Status.PEER_LOST, 0b100, 1, 0)


@pytest.mark.parametrize(("status", "heard"), [(0, 0), (Status.PEER_LOST, 1)])
def test_a_silent_request_is_heard_only_if_it_fails(make_rig, status, heard):
    rig = make_rig(2)
    rig.post(4, flags=0)
    rig.done(0, rig.parts(0)[0], status=status)
    assert len(rig.completions()) == heard


def test_leaving_drops_outstanding_requests(make_rig):
    rig = make_rig(2)
    rig.post(LONG)
    late = rig.parts(0)[0]
    rig.splitter.leave(QUEUE)
    assert not len(rig.parts(1))
    rig.done(0, late)
    assert not len(rig.completions())
    rig.splitter.join(QUEUE, [64, 64])
    rig.position = 0
    rig.post(4, wr_id=9)
    rig.done(0, rig.parts(0)[0])
    assert [int(cqe["wr_id"]) for cqe in rig.completions()] == [9]


def fill_completion_ring(rig: Rig) -> None:
    for _ in range(abi.CQ_DEPTH):
        rig.post(4)
        rig.done(0, rig.parts(0)[0])


def test_a_completion_without_room_is_told_once(make_rig):
    rig = make_rig(2)
    fill_completion_ring(rig)
    assert rig.splitter.take_overruns() == []
    for _ in range(3):
        rig.post(4)
        rig.done(0, rig.parts(0)[0])
    assert rig.splitter.take_overruns() == [QUEUE]
    assert rig.splitter.take_overruns() == []
    assert rig.splitter.cq_overflows == 3


def test_overrun_of_a_job_that_was_left_ends_no_other(make_rig):
    rig = make_rig(2)
    fill_completion_ring(rig)
    rig.post(4)
    rig.done(0, rig.parts(0)[0])
    rig.splitter.leave(QUEUE)
    assert rig.splitter.take_overruns() == []


def test_a_new_job_can_overrun_again(make_rig):
    rig = make_rig(2)
    fill_completion_ring(rig)
    for _ in range(2):
        rig.post(4)
        rig.done(0, rig.parts(0)[0])
        assert rig.splitter.take_overruns() == [QUEUE]
        rig.splitter.leave(QUEUE)
        rig.splitter.join(QUEUE, [64, 64])
        rig.position = 0
