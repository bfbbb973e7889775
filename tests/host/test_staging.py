"""Registered memory that stands in for ordinary memory: nobody can tell, whatever else is under way."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.buffers import address_of
from fanin.reductions import allreduce
from fanin.relay import stand_in
from fanin.staging import LARGEST, REGION, SMALLEST, Staging
from fanin.verbs import PD, Context
from fanin_wire.abi import LKEY_PROCESS

BOUND_S = 20


@pytest.fixture
def staging(pd: PD, context: Context) -> Staging:
    return Staging(pd, context.regions)


def keys_of(communicator, **arguments) -> set[int]:
    """The keys of the memory that an allreduce with these arguments would name."""
    call = type(communicator).iallreduce  # the request is made, and ended, for its work requests
    request = call(communicator, **arguments)
    works = request.works
    request.wait(BOUND_S)
    return {key for work in works for key in (work.source_lkey, work.destination_lkey)}


@pytest.mark.parametrize(("count", "staged"), [(100, True), (LARGEST // 4, True), (LARGEST // 4 + 1, False)])
def test_what_is_staged(alone, count, staged):
    assert (LKEY_PROCESS not in keys_of(alone, array=np.ones(count, "f4"))) == staged


def test_nothing_is_where_the_user_says_so(device, make_job, monkeypatch):
    monkeypatch.setenv("FANIN_STAGING", "0")
    with Communicator(make_job(1), 0, device.socket) as communicator:
        assert keys_of(communicator, array=np.ones(100)) == {LKEY_PROCESS}


def test_a_limit_that_is_no_number(device, make_job, monkeypatch):
    monkeypatch.setenv("FANIN_STAGING", "much")
    with pytest.raises(errors.InvalidRequest, match="FANIN_STAGING is 'much'"):
        Communicator(make_job(1), 0, device.socket)


def test_many_at_once_each_with_its_own(alone):
    arrays = [np.full(3000, number, "i4") for number in range(50)]
    requests = [alone.iallreduce(array) for array in arrays]
    results = [request.wait(BOUND_S) for request in requests]
    assert [int(result[0]) for result in results] == list(range(50))


def test_in_place_and_partial_results(run_ranks, device):
    def program(communicator):
        whole = np.full((2, 50), -1, "i8")
        whole[communicator.rank] = communicator.rank
        communicator.allgather(whole[communicator.rank], out=whole)
        part = communicator.reduce_scatter(whole)
        communicator.allreduce(part, out=part)
        return whole[:, 0].tolist(), part.tolist()

    assert run_ranks(device, 2, program) == [([0, 1], [2] * 50)] * 2


def test_a_fence_waits_for_the_copy(alone):
    """Behind a fence the result before it is the input: it must have come to where it belongs."""
    for number in range(20):
        first, second = np.full(5000, number, "i4"), np.empty(5000, "i4")
        requests = [alone.iallreduce(first, out=second), alone.iallreduce(second, fence=True)]
        assert np.all(requests[-1].wait(BOUND_S) == number)
        requests[0].wait(BOUND_S)


@pytest.mark.parametrize("count", [2, 5000], ids=["inline", "long"])
@pytest.mark.parametrize("registered", [False, True], ids=["ordinary", "registered"])
def test_behind_a_fence_few_bytes_are_read_late_too(alone, count, registered):
    make = alone.alloc if registered else np.zeros
    first, second = make(count, "i4"), make(count, "i4")
    for number in range(1, 20):
        first[:], second[:] = number, 0
        requests = [alone.iallreduce(first, out=second), alone.iallreduce(second, fence=True)]
        assert np.all(requests[1].wait(BOUND_S) == number)
        requests[0].wait(BOUND_S)


def test_persistent_copies_each_time(alone):
    array, out = np.zeros(2000), np.zeros(2000)
    with alone.allreduce_init(array, out=out, ordered=True) as request:
        for number in range(4):
            array[:] = number
            request.start().wait(BOUND_S)
            assert np.all(out == number)


def test_areas_of_a_failed_request_are_not_lent_again(beside):
    """The device may still write to them."""

    def abort(communicator, posted):
        posted.wait(BOUND_S)
        communicator.abort()

    with beside(abort) as (communicator, posted):
        staging = communicator._member.attachment.staging
        request = communicator.iallreduce(np.ones(1000))
        posted.set()
        with pytest.raises(errors.PeerLost):
            request.wait(BOUND_S)
        lent = [area for areas in staging._free.values() for area in areas]
        assert len(lent) < sum(REGION // size for size in staging._free)


def test_requests_that_are_done_hold_no_areas(alone):
    """The program may keep them as long as it likes."""
    array, staging = np.ones(1000), alone._member.attachment.staging
    requests = [alone.iallreduce(array) for _ in range(5)]
    for request in requests:
        request.wait(BOUND_S)
    free = {size: len(areas) for size, areas in staging._free.items()}
    assert free == {size: REGION // size for size in free}
    assert free


def test_a_call_that_waits_keeps_what_stood_in_for_its_memory(alone, monkeypatch):
    array, out, staging = np.ones(1000), np.zeros(1000), alone._member.attachment.staging
    for number in range(4):
        if number == 2:  # the first makes the call, the second lends
            monkeypatch.setattr(staging, "lend", None)
        array[:] = number
        assert np.all(alone.allreduce(array, out=out) == number)


def test_there_is_a_limit_to_what_is_kept(alone, monkeypatch):
    """Of all calls of a connection together; a communicator that is closed keeps nothing."""
    staging, arrays = alone._member.attachment.staging, [np.full(100, number) for number in range(6)]
    monkeypatch.setattr("fanin.staging.MOST_KEPT", 5 * SMALLEST)
    for _ in range(3):
        for number, array in enumerate(arrays):
            assert np.all(alone.allreduce(array, out=array) == number)
    assert staging._kept == 5 * SMALLEST
    alone.close()
    assert staging._kept == 0


def test_long_calls_leave_half_of_it_to_short_ones(staging, monkeypatch):
    monkeypatch.setattr("fanin.staging.MOST_KEPT", 2 * REGION)
    long, longer, short = (stand_in(staging, nbytes, nbytes, None) for nbytes in (REGION, REGION, SMALLEST))
    assert [standing.keep() for standing in (long, longer, short)] == [True, False, True]


def test_what_stands_in_for_one_side_only_is_not_kept(staging, monkeypatch):
    true, lent = staging.lend, itertools.count()
    with monkeypatch.context() as once:
        once.setattr(staging, "lend", lambda nbytes: None if next(lent) else true(nbytes))
        assert not stand_in(staging, 8000, 4000, None).keep()
    assert staging._kept == 0
    both = stand_in(staging, 8000, 4000, None)
    assert both.keep()
    assert staging._kept == 8192 + 4096


def test_the_same_blocks_are_in_one_place(staging):
    source, destination = stand_in(staging, 8000, 8000, None).places()
    assert source == destination
    source, destination = stand_in(staging, 8000, 4000, None).places()
    assert source.address != destination.address


def test_a_call_that_found_no_room_looks_for_it_the_next_time(alone, monkeypatch):
    """The device reads ordinary memory page after page: once, not for ever."""
    array, out, staging = np.ones(1000), np.zeros(1000), alone._member.attachment.staging
    alone.allreduce(array, out=out)
    with monkeypatch.context() as once:
        once.setattr(staging, "lend", lambda _: None)
        assert np.all(alone.allreduce(array, out=out) == 1)
    assert np.all(alone.allreduce(array, out=out) == 1)
    assert staging._kept == 8192


def test_what_stands_in_may_change_from_time_to_time(alone, monkeypatch):
    """Of two threads that make the same call, one finds no room: there its memory is named."""
    array, out, staging = np.ones(1000), np.zeros(1000), alone._member.attachment.staging
    for _ in range(2):
        alone.allreduce(array, out=out)
    (remembered,) = alone.direct._known.values()
    values = (array, allreduce, "out", out)
    first = remembered.begin(values, waits=True)
    monkeypatch.setattr(staging, "lend", lambda _: None)
    second = remembered.begin(values, waits=True)
    assert second.staged is None
    for attempt in (first, second):
        assert attempt.request(alone._member.stream).call.destination is out
        assert (attempt.c.source.length > 0) == (attempt is first)
        assert (attempt.c.wqe.address.source == address_of(array)) == (attempt is second)


def test_areas_are_lent_again(staging):
    area = staging.lend(100)
    assert area is not None
    assert area.memory.nbytes == SMALLEST
    staging.take_back(area)
    assert staging.lend(SMALLEST) is area


def test_areas_do_not_overlap(staging):
    areas = [staging.lend(size) for size in (100, 5000, 5000, REGION, 100, 2 * REGION, 5000)]
    places = sorted((area.address, area.address + area.size) for area in areas)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))


def test_not_too_much_is_registered(staging, monkeypatch):
    monkeypatch.setattr("fanin.staging.MOST", 4 * LARGEST)
    areas = [staging.lend(LARGEST) for _ in range(4)]
    assert None not in areas
    assert staging.lend(LARGEST) is None
    staging.take_back(areas[3])
    assert staging.lend(LARGEST) is areas[3]


def test_a_device_that_grants_no_more(alone, monkeypatch):
    """Then the device reads where the data are."""

    def refuse(*_, **__):
        raise errors.NoResources("no regions")

    monkeypatch.setattr("fanin.staging.MR", refuse)
    array = np.full(1000, 3)
    for _ in range(3):
        assert np.all(alone.allreduce(array) == 3)
