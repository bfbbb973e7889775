"""Requests are cut so that the lanes' parts are the message, and alike on every rank."""

from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanin_wire import abi
from fanin_wire.abi import ContributorClass, WqeFlag
from tests.lanes.rig import CHUNK, QUEUE, Rig

SEGMENTS_OF_A_LANE = 16


def expected_lanes(length: int, lanes: int) -> int:
    return min(lanes, max(1, -(-length // CHUNK) // SEGMENTS_OF_A_LANE))


@given(length=st.integers(0, 200 * CHUNK), lanes=st.sampled_from([2, 4, 16]), sid=st.integers(0, 9))
def test_parts_are_the_message(length, lanes, sid):
    with contextlib.closing(Rig(lanes)) as rig:
        assert rig.post(length, sid=sid, offset=100, mid=5) == 1
        parts = [part for lane in range(lanes) for part in rig.parts(lane)]
        assert len(parts) == expected_lanes(length, lanes)
        end, segment = 0, 0
        for part in parts:
            assert (part["offset"], part["sid"], part["mid"]) == (100 + end, sid + segment, 5)
            end += int(part["length"])
            segment += -(-int(part["length"]) // CHUNK)
            assert end == length or end % CHUNK == 0
        assert end == length
        runs = [-(-int(part["length"]) // CHUNK) for part in parts]
        assert max(runs) - min(runs) <= 1


def test_streams_of_the_lanes_go_on(make_rig):
    rig = make_rig(2, [16, 32])
    assert rig.slots == 16
    positions = [0, 0]
    for segments in (1, 40, 33, 16, 100):
        rig.post(segments * CHUNK - 4)
        for lane, slots in enumerate((16, 32)):
            for part in rig.parts(lane):
                assert part["seg"] == positions[lane] % slots
                positions[lane] += -(-int(part["length"]) // CHUNK)
    assert sum(positions) == 190


def test_a_request_out_of_step_is_out_of_step_for_the_lanes(make_rig):
    rig = make_rig(2)
    rig.post(40 * CHUNK, seg=1)
    assert [int(rig.parts(lane)[0]["seg"]) for lane in (0, 1)] == [1, 1]


def test_every_part_is_signalled_and_numbered(make_rig):
    rig = make_rig(2)
    rig.post(40 * CHUNK, flags=0, wr_id=1 << 60)
    rig.post(40 * CHUNK, flags=int(WqeFlag["ADDRESS_LIST"]), wr_id=1 << 60)
    for lane in (0, 1):
        parts = rig.parts(lane)
        assert list(parts["wr_id"]) == [0, 1]
        assert list(parts["flags"] & WqeFlag["SIGNALED"]) == [1, 1]
        assert parts["flags"][1] & WqeFlag["ADDRESS_LIST"]


@pytest.mark.parametrize(
    "members", [{"chunk": 0}, {"chunk": 2 * CHUNK}, {"length": (1 << 64) - 1}, {"length": CHUNK << 30}]
)
def test_what_makes_no_sense_goes_to_lane_0_as_it_is(make_rig, members):
    rig = make_rig(2)
    rig.post(**{"length": 40 * CHUNK, **members})
    assert not len(rig.parts(1))
    (part,) = rig.parts(0)
    assert all(part[name] == np.array(value, part[name].dtype) for name, value in members.items())


def test_without_a_job_everything_goes_to_lane_0(make_rig):
    rig = make_rig(2, [])
    rig.post(40 * CHUNK)
    assert len(rig.parts(0)) == 1
    assert len(rig.parts(1)) == 0


def test_a_barrier_is_one_position_of_lane_0(make_rig):
    rig = make_rig(2)
    rig.post(0, contributors=int(ContributorClass["NONE"]))
    assert len(rig.parts(0)) == 1
    rig.position += 1
    rig.post(40 * CHUNK)
    assert [int(rig.parts(lane)[0]["seg"]) for lane in (0, 1)] == [1, 0]


def test_no_more_is_taken_than_the_lanes_have_room_for(make_rig):
    rig = make_rig(2)
    assert sum(rig.post(40 * CHUNK) for _ in range(abi.SQ_DEPTH + 3)) == abi.SQ_DEPTH
    first = [rig.parts(lane)[0] for lane in (0, 1)]
    for lane in (0, 1):
        rig.done(lane, first[lane])
    assert rig.post(4) == 1


def test_lanes_that_sleep_are_woken(make_rig):
    rig = make_rig(4)
    rig.doorbells["device_sleeping"][[0, 2]] = 1
    rig.post(4)
    assert os.eventfd_read(rig.eventfds[2]) == 1
    for awake in (0, 1, 3):  # lane 0 is who calls
        with pytest.raises(BlockingIOError):
            os.eventfd_read(rig.eventfds[awake])


def test_a_queue_that_is_closed_is_forgotten(make_rig):
    rig = make_rig(2)
    rig.splitter.close(QUEUE)
    assert rig.post(4) == 0
