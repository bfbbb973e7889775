"""Requests are cut so that the lanes' parts are the message, equally on every rank."""

import contextlib
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin_nic.daemon.splitter.tables import UNDER_WAY
from fanin_wire import abi
from fanin_wire.abi import ContributorClass, WqeFlag
from tests.lanes.rig import CHUNK, QUEUE, Rig

SEGMENTS_OF_A_LANE = 16
LONG = 40 * CHUNK  # for two lanes
CUT = {"sid", "segments", "seg", "wr_id", "flags"}  # members that differ between a part and its request


def expected_lanes(segments: int, lanes: int) -> int:
    return min(lanes, max(1, segments // SEGMENTS_OF_A_LANE))


@settings(deadline=None)
@given(segments=st.integers(0, 200), lanes=st.sampled_from([2, 4, 16]), sid=st.integers(0, 9))
def test_parts_are_the_message(segments, lanes, sid):
    with contextlib.closing(Rig(lanes)) as rig:
        assert rig.post(12345, sid=sid, segments=segments, mid=5) == 1
        parts = [part for lane in range(lanes) for part in rig.parts(lane)]
        assert len(parts) == expected_lanes(segments, lanes)
        end = sid
        for part in parts:
            assert part["sid"] == end
            end += int(part["segments"])
        assert end == sid + segments
        runs = [int(part["segments"]) for part in parts]
        assert max(runs) - min(runs) <= 1


def test_a_part_is_the_request_of_other_segments(make_rig):
    rig = make_rig(2)
    address = np.array([(1, 2, 3, 4, 5, 6)], abi.WQE["address"])[0]
    rig.post(LONG, block=1000, jid=8, mid=9, deadline_ms=7, address=address, inline_tail=10, source_lkey=11)
    (first,), (second,) = rig.parts(0), rig.parts(1)
    same = [name for name in first.dtype.names if name not in CUT]
    assert [first[name] for name in same] == [second[name] for name in same]
    assert (first["block"], first["mid"], first["address"], first["inline_tail"]) == (1000, 9, address, 10)


@pytest.mark.parametrize("flag", ["INLINE", "ADDRESS_LIST", "SIGNALED"])
def test_flags_that_only_one_rank_may_set_do_not_change_the_cut(make_rig, flag):
    """Each block of a gather can be short enough to be inline on one rank, though the message is long."""
    rig = make_rig(2)
    rig.post(LONG, flags=int(WqeFlag[flag]))
    assert [int(rig.parts(lane)[0]["segments"]) for lane in (0, 1)] == [20, 20]


def test_streams_of_the_lanes_go_on(make_rig):
    rig = make_rig(2, [16, 32])
    assert rig.slots == 16
    positions = [0, 0]
    for segments in (1, 40, 33, 16, 100):
        rig.post(segments * CHUNK - 4)
        for lane, slots in enumerate((16, 32)):
            for part in rig.parts(lane):
                assert part["seg"] == positions[lane] % slots
                positions[lane] += int(part["segments"])
    assert sum(positions) == 190


def test_a_request_out_of_step_is_out_of_step_for_the_lanes(make_rig):
    rig = make_rig(2)
    rig.post(LONG, seg=1)
    assert [int(rig.parts(lane)[0]["seg"]) for lane in (0, 1)] == [1, 1]


def test_every_part_is_signaled_and_numbered(make_rig):
    rig = make_rig(2)
    rig.post(LONG, flags=0, wr_id=1 << 60)
    rig.post(LONG, flags=int(WqeFlag.ADDRESS_LIST), wr_id=1 << 60)
    for lane in (0, 1):
        parts = rig.parts(lane)
        assert list(parts["wr_id"]) == [0, 1]
        assert list(parts["flags"] & WqeFlag.SIGNALED) == [1, 1]
        assert parts["flags"][1] & WqeFlag.ADDRESS_LIST


@pytest.mark.parametrize(
    "members",
    [
        {"segments": 1 << 30},
        {"segments": 0xFFFFFFFF},
        {"sid": 0xFFFFFFFF},
        {"sid": 0xFFFFFFF0, "segments": 32},
        {"opcode": 9},
    ],
)
def test_malformed_requests_go_unchanged_to_lane_0(make_rig, members):
    rig = make_rig(2)
    rig.post(LONG, **members)
    assert not len(rig.parts(1))
    (part,) = rig.parts(0)
    assert all(part[name] == value for name, value in members.items())


def test_without_a_job_everything_goes_to_lane_0(make_rig):
    rig = make_rig(2, [])
    rig.post(LONG)
    assert len(rig.parts(0)) == 1
    assert len(rig.parts(1)) == 0


def test_a_barrier_is_one_position_of_lane_0(make_rig):
    rig = make_rig(2)
    rig.post(0, segments=1, contributors=int(ContributorClass.NONE))
    assert len(rig.parts(0)) == 1
    rig.post(LONG)
    assert [int(rig.parts(lane)[0]["seg"]) for lane in (0, 1)] == [1, 0]


def test_no_more_is_taken_than_the_lanes_have_room_for(make_rig):
    """Beside a query, for which the lanes have room as well."""
    rig = make_rig(2)
    assert sum(rig.post(LONG) for _ in range(UNDER_WAY)) == UNDER_WAY
    assert rig.query(1) == 1
    assert sum(rig.post(LONG) for _ in range(3)) == 0
    assert not rig.is_waiting()
    parts = [rig.parts(lane) for lane in (0, 1)]
    assert [len(each) for each in parts] == [abi.SQ_DEPTH, abi.SQ_DEPTH]
    for lane in (0, 1):
        rig.done(lane, parts[lane][0])
    assert rig.is_waiting()
    assert rig.split() == 1


def test_a_fenced_request_waits_until_all_before_it_are_complete(make_rig):
    rig = make_rig(2)
    rig.post(LONG)
    rig.post(4)
    first, second = rig.parts(0), rig.parts(1)
    rig.post(LONG, flags=WqeFlag.FENCE)
    rig.post(4)
    rig.done(0, first[0])
    rig.done(0, first[1])
    rig.split()
    assert [len(rig.parts(lane)) for lane in (0, 1)] == [0, 0]
    rig.done(1, second[0])
    rig.split()
    assert [len(rig.parts(lane)) for lane in (0, 1)] == [2, 1]
    assert len(rig.completions()) == 2


def test_a_fence_with_nothing_before_it_holds_nothing(make_rig):
    rig = make_rig(2)
    rig.post(4, flags=WqeFlag.FENCE)
    assert len(rig.parts(0)) == 1
    rig.post(4, flags=WqeFlag.FENCE)
    assert len(rig.parts(0)) == 0


def test_fenced_requests_do_not_keep_the_lane_awake(make_rig):
    rig = make_rig(2)
    rig.post(4)
    rig.post(4, flags=WqeFlag.FENCE)
    assert rig.split() == 0
    assert not rig.is_waiting()


def test_fenced_requests_are_dropped_with_their_job(make_rig):
    rig = make_rig(2)
    rig.post(4)
    rig.post(4, flags=WqeFlag.FENCE)
    rig.splitter.leave(QUEUE)
    rig.split()
    assert not len(rig.parts(0))
    rig.splitter.join(QUEUE, [64, 64])
    rig.position = 0
    rig.post(4, flags=WqeFlag.FENCE)
    assert len(rig.parts(0)) == 1


def rings_of_the_bell(rig: Rig) -> list[int]:
    """Lanes that were woken since the last call."""
    woken = []
    for lane, eventfd in enumerate(rig.eventfds):
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(eventfd)
            woken.append(lane)
    return woken


def test_lanes_that_sleep_are_woken_for_their_parts(make_rig):
    rig = make_rig(4)
    rig.doorbells["device_sleeping"][[0, 1, 3]] = 1
    rig.post(70 * CHUNK)
    assert rings_of_the_bell(rig) == [1, 3]  # lane 2 is awake, lane 0 calls


def test_sleeping_lanes_are_not_woken_for_other_lanes(make_rig):
    rig = make_rig(4)
    rig.doorbells["device_sleeping"][:] = 1
    rig.post(4)
    assert rings_of_the_bell(rig) == []
    rig.post(LONG)
    assert rings_of_the_bell(rig) == [1]
    rig.post(4)
    assert rings_of_the_bell(rig) == []
    rig.query(1)
    assert rings_of_the_bell(rig) == [1, 2, 3]


def test_a_queue_that_is_closed_is_forgotten(make_rig):
    rig = make_rig(2)
    rig.splitter.close(QUEUE)
    assert rig.post(4) == 0
