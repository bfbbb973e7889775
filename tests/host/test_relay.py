"""Long messages, in parts: nobody can tell, wherever the memory is and whatever comes between."""

from __future__ import annotations

import gc
import itertools
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.call import Call
from fanin.collectives import collective
from fanin.plan import MOST_PARTS, PART, part_length, plan
from fanin.relay import DEPTH, TOGETHER, stand_in
from fanin.staging import LARGEST
from fanin.verbs import CollectiveQP
from fanin_wire.abi import LKEY_PROCESS, Status, WqeFlag

BOUND_S = 20
PENDING = int(Status["PENDING"])
LONG = (DEPTH + 2) * PART + 12  # bytes: more parts than a relay holds, the last a short one
SIZES = [PART, PART + 4, TOGETHER, TOGETHER + 4, LONG]
LARGE = LARGEST + PART


class TestPlan:
    """All ranks cut alike."""

    @pytest.mark.parametrize("size", [1, PART, PART + 1, MOST_PARTS * PART, MOST_PARTS * PART + 1, 1 << 33])
    def test_parts_are_the_message(self, size):
        parts = plan(collective("allreduce"), 0, 0, (size,))
        assert sum(part.length for part in parts) == size
        assert {part.length for part in parts[:-1]} <= {part_length(size)}
        assert 0 < parts[-1].length <= part_length(size)
        assert len(parts) <= MOST_PARTS
        assert all(part.block == part.length for part in parts)
        starts = [0, *itertools.accumulate(part.length for part in parts)]
        assert [part.source.offset for part in parts] == [part.destination.offset for part in parts] == starts[:-1]

    def test_blocks_of_ranks_are_not_cut(self):
        assert len(plan(collective("allgather"), 0, 0, (LONG,))) == 1


def program_of(name: str, size: int, registered: set[tuple[int, str]], times: int):
    """Function: a program that does a collective `times` times, with new numbers each time, and returns the results.
    registered: (rank, side) of what is in registered memory."""

    def program(communicator):
        rank = communicator.rank
        makes = [communicator.alloc if (rank, side) in registered else np.zeros for side in ("source", "result")]
        source, result = (make(size // 4, "u4") for make in makes)
        seen = []
        for time in range(times):
            source[:] = np.arange(size // 4, dtype="u4") * (rank + 1) + time
            result[:] = 0
            getattr(communicator, name)(source, out=result)
            seen.append(result.copy())
        return seen

    return program


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "registered",
    [set(), {(0, "source"), (1, "result")}, {(rank, side) for rank in (0, 1) for side in ("source", "result")}],
    ids=["ordinary", "mixed", "registered"],
)
def test_sums(run_ranks, device, size, registered):
    """The second time the driver core does it."""
    steps = np.arange(size // 4, dtype="u4")
    for seen in run_ranks(device, 2, program_of("allreduce", size, registered, 3)):
        assert all(np.array_equal(result, steps * 3 + 2 * time) for time, result in enumerate(seen))


@pytest.mark.parametrize("registered", [set(), {(0, "source"), (1, "result")}], ids=["ordinary", "registered"])
def test_one_side_only(run_ranks, device, registered):
    def program(communicator):
        source = np.arange(LONG // 4, dtype="u4") + communicator.rank
        if (communicator.rank, "source") in registered:
            held = communicator.alloc(source.shape, "u4")
            held[:] = source
            source = held
        seen = []
        for _ in range(3):
            reduced = communicator.reduce(source, root=1)
            moved = communicator.broadcast(source.copy(), root=0)
            seen.append((reduced, moved))
        return seen

    steps = np.arange(LONG // 4, dtype="u4")
    for rank, seen in enumerate(run_ranks(device, 2, program)):
        for reduced, moved in seen:
            assert np.array_equal(moved, steps)
            assert (reduced is None) == (rank == 0)
            assert reduced is None or np.array_equal(reduced, 2 * steps + 1)


@pytest.fixture
def array():
    return np.arange(LONG // 4, dtype="u4")


def test_in_place(alone, array):
    expected = array.copy()
    for _ in range(3):
        alone.allreduce(array, out=array)
        assert np.array_equal(array, expected)


def keys(posted) -> set[int]:
    """Of the memory that posted requests name."""
    return {key for wqe in posted for key in (wqe.source_lkey, wqe.destination_lkey)}


@pytest.fixture
def posted(monkeypatch):
    """Work requests as they are posted the usual way."""
    seen, post = [], CollectiveQP.post_send

    def watched(qp, work):
        seen.append(work)
        return post(qp, work)

    monkeypatch.setattr(CollectiveQP, "post_send", watched)
    return seen


def test_who_waits_lets_the_device_touch_registered_memory_only(alone, posted):
    array = np.ones(LARGE // 4, "u4")
    alone.allreduce(array)
    assert LKEY_PROCESS not in keys(posted)
    assert len({work.address_list[0].source for work in posted}) == DEPTH
    posted.clear()
    alone.iallreduce(array.copy()).wait(BOUND_S)
    assert keys(posted) == {LKEY_PROCESS}


@pytest.mark.parametrize(("size", "places"), [(PART + 4, 2), (TOGETHER, 2), (TOGETHER + 4, DEPTH)])
def test_short_ones_are_there_as_a_whole(alone, size, places):
    """So their parts end together: nobody copies while the device works on others."""
    relay = stand_in(alone._member.attachment.staging, size, size, part_length(size))
    parts = len(plan(collective("allreduce"), 0, 0, (size,)))
    assert [relay.has_room(number) for number in range(parts)] == [number < places for number in range(parts)]
    assert relay.nbytes == places * PART
    assert relay.signal_interval == (None if parts <= places else 1)


def test_nothing_is_copied_where_the_user_says_so(device, make_job, monkeypatch, posted, array):
    monkeypatch.setenv("FANIN_STAGING", "0")
    with Communicator(make_job(1), 0, device.socket) as communicator:
        for _ in range(2):
            assert np.array_equal(communicator.allreduce(array), array)
    assert keys(posted) == {LKEY_PROCESS}


def test_registered_results_go_past_the_caches_if_they_are_long(alone, posted):
    for size, is_long in [(LARGEST - 4, False), (LARGEST, True)]:
        source, result = (alone.alloc(size // 4, "u4") for _ in range(2))
        alone.allreduce(source, out=result)
        assert {bool(work.flags & WqeFlag["LONG"]) for work in posted} == {is_long}
        posted.clear()


def test_what_is_lent_comes_back(alone, array):
    """When nobody will make the call again."""
    staging = alone._member.attachment.staging
    for _ in range(4):
        alone.allreduce(array)
    assert not staging._free[DEPTH * PART]
    alone.direct.forget()
    gc.collect()
    assert len(staging._free[DEPTH * PART]) == 1
    assert staging._kept == 0


def test_no_memory_to_be_had(alone, array, monkeypatch):
    """Then the device reads where the data are."""

    def refuse(*_, **__):
        raise errors.NoResources("no regions")

    monkeypatch.setattr("fanin.staging.MR", refuse)
    for _ in range(3):
        assert np.array_equal(alone.allreduce(array), array)


def test_parts_that_are_posted_late_have_less_time(alone, posted, array, monkeypatch):
    now = itertools.count()
    monkeypatch.setattr("fanin.call.time", SimpleNamespace(monotonic=lambda: float(next(now))))
    for _ in range(2):
        alone.allreduce(array, timeout=60)
        times = [work.deadline_ms for work in posted]
        assert times[0] == 60_000
        assert times == sorted(times, reverse=True)
        assert times[-1] < times[0]
        posted.clear()


def test_no_time_is_left():
    call = Call("allreduce", collective("allreduce"), (LONG,), timeout=0.001)
    assert call.milliseconds_left() == 1  # 0 would mean that it may last


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_areas_of_what_failed_are_not_lent_again(device, make_job, again):
    """The device may still write to them."""
    job, array = make_job(2), np.ones(LONG // 4, "u4")

    def other():
        communicator = Communicator(job, 1, device.socket)
        for _ in range(again):
            communicator.allreduce(array)
        communicator.abort()

    thread = threading.Thread(target=other)
    thread.start()
    with Communicator(job, 0, device.socket) as communicator:
        for _ in range(again):
            communicator.allreduce(array)
        with pytest.raises(errors.PeerLost):
            communicator.allreduce(array)
        gc.collect()
        assert not communicator._member.attachment.staging._free[DEPTH * PART]
    thread.join(BOUND_S)


class TestNonBlocking:
    """The usual way, also when it was done before."""

    @pytest.mark.parametrize("registered", [False, True], ids=["ordinary", "registered"])
    @pytest.mark.parametrize("size", [LONG, LARGE])
    def test_sums(self, alone, size, registered):
        make = alone.alloc if registered else np.zeros
        source, result = make(size // 4, "u4"), make(size // 4, "u4")
        for number in range(3):
            source[:] = np.arange(size // 4) + number
            assert alone.iallreduce(source, out=result).wait(BOUND_S) is result
            assert np.array_equal(result, source)

    def test_all_is_posted_at_once(self, alone, array):
        """What stood in for blocking calls needs a rank that waits."""
        for _ in range(3):
            alone.allreduce(array)
        request = alone.iallreduce(array)
        assert request.is_posted
        assert np.array_equal(request.wait(BOUND_S), array)

    def test_between_others(self, alone, array):
        alone.allreduce(array)
        for _ in range(2):
            requests = [alone.iallreduce(data) for data in (array, array[:10], array, array[:10])]
            results = [request.wait(BOUND_S) for request in requests]
            assert [result.size for result in results] == [array.size, 10, array.size, 10]
            assert all(np.array_equal(result, array[: result.size]) for result in results)

    @pytest.mark.parametrize("ordered", [False, True], ids=["own-stream", "ordered"])
    def test_persistent(self, alone, array, ordered):
        result = np.empty_like(array)
        with alone.allreduce_init(array, out=result, ordered=ordered) as request:
            for _ in range(3):
                array += 1
                request.start()
                request.wait(BOUND_S)
                assert np.array_equal(result, array)
                progress = request.progress()
                assert progress.done == progress.segments > 0


@pytest.mark.usefixtures("visited")
class TestGivenUp:
    """The driver core has begun, and does not come to an end within its patience; then something else comes."""

    @pytest.mark.parametrize("rounds", range(4))
    def test_the_usual_way_goes_on_where_it_stood(self, alone, array, monkeypatch, rounds):
        alone.allreduce(array)
        call, finish = CollectiveQP.call, CollectiveQP.finish

        def begun(qp, prepared, timeout_ms):
            if (status := call(qp, prepared, 0)) == PENDING:
                for _ in range(rounds):
                    status = finish(qp, prepared, 1)
            return status

        monkeypatch.setattr(CollectiveQP, "call", begun)
        monkeypatch.setattr(CollectiveQP, "finish", lambda *_: PENDING)
        for number in range(3):
            array += number
            assert np.array_equal(alone.allreduce(array), array)
        assert alone.status()["outstanding"] == 0

    def test_ranks_that_have_no_patience(self, run_ranks, device, monkeypatch):
        """All change to the usual way somewhere, each elsewhere."""
        monkeypatch.setattr("fanin.fastpath.PATIENCE_MS", 0)
        steps = np.arange(LONG // 4, dtype="u4")
        for seen in run_ranks(device, 3, program_of("allreduce", LONG, {(1, "source")}, 20)):
            assert all(np.array_equal(result, steps * 6 + 3 * time) for time, result in enumerate(seen))

    def test_a_peer_that_is_late(self, device, make_job, array):
        job, late = make_job(2), threading.Event()

        def other():
            with Communicator(job, 1, device.socket) as communicator:
                communicator.allreduce(array)
                late.wait(BOUND_S)
                communicator.allreduce(array)

        thread = threading.Thread(target=other)
        thread.start()
        with Communicator(job, 0, device.socket) as communicator:
            communicator.allreduce(array)
            threading.Timer(0.2, late.set).start()
            assert np.array_equal(communicator.allreduce(array), 2 * array)
        thread.join(BOUND_S)


def test_memory_of_one_size_makes_room_for_another(alone, monkeypatch):
    monkeypatch.setattr("fanin.staging.MOST", DEPTH * PART + PART)
    staging = alone._member.attachment.staging
    for nbytes, size in ((LONG, DEPTH * PART), (PART, PART), (LONG + 4, DEPTH * PART)):
        alone.allreduce(np.ones(nbytes // 4, "u4"))
        gc.collect()
        assert staging._free[size], "it was not lent any"
        assert staging._registered[0] <= DEPTH * PART + PART
