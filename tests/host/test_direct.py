"""Blocking collectives done again at once: that they are, and that nobody can tell but by the clock."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.direct import RECENT, key_of
from fanin.fastpath import FastPath
from fanin.reductions import allreduce

BOUND_S = 20


@pytest.fixture
def outcomes(monkeypatch):
    """What the fast path has answered, in order: True, done; "under way", on a slow machine; False, not begun."""
    seen: list[bool | str] = []
    call = FastPath.call

    def watched(*arguments):
        outcome = call(*arguments)
        seen.append(outcome if isinstance(outcome, bool) else "under way")
        return outcome

    monkeypatch.setattr(FastPath, "call", watched)
    return seen


@pytest.mark.parametrize("count", [2, 5, 5000], ids=["inline", "short", "long"])
@pytest.mark.parametrize("registered", [False, True], ids=["process", "registered"])
def test_what_the_memory_holds_now_counts(alone, outcomes, count, registered):
    make = alone.alloc if registered else np.zeros
    array, out = make(count, "f4"), make(count, "f4")
    for number in range(4):
        array[:] = number + 1
        assert alone.allreduce(array, out=out) is out
        assert np.all(out == number + 1)
        array += 1
        assert np.all(alone.allreduce(array, op="max") == number + 2)
    assert len(outcomes) == 6
    assert False not in outcomes


def test_new_results_are_apart(alone, outcomes):
    array = np.zeros((2, 3), "i4")
    results = []
    for number in range(4):
        array[:] = number
        results.append(alone.allgather(array))
    assert [result.shape for result in results] == [(1, 2, 3)] * 4
    assert [int(result.sum()) for result in results] == [0, 6, 12, 18]
    assert len(outcomes) == 3
    assert False not in outcomes


def test_every_collective(run_ranks, device):
    def program(communicator):
        rank, size, found = communicator.rank, communicator.size, []
        data, rows = np.zeros(2 * size, "i8"), np.zeros((size, 3), "i8")
        for number in range(3):
            data[:], rows[:] = rank + number, np.arange(size)[:, None] + number
            mine = np.full(3, rank + number, "i8")
            found.append(
                (
                    communicator.allreduce(data).tolist(),
                    communicator.reduce_scatter(data).tolist(),
                    np.array(communicator.reduce(data, root=1)).tolist(),
                    communicator.allgather(data).tolist(),
                    np.array(communicator.gather(data, root=1)).tolist(),
                    communicator.scatter(rows, out=mine, root=1).tolist(),
                    communicator.broadcast(data, root=1).tolist(),
                    communicator.barrier(),
                )
            )
        return found

    for rank, found in enumerate(run_ranks(device, 3, program)):
        for number, each in enumerate(found):
            total, part, reduced, gathered, at_root, row, sent, nothing = each
            assert (total, part, nothing) == ([3 + 3 * number] * 6, [3 + 3 * number] * 2, None)
            assert reduced == (total if rank == 1 else None)
            assert gathered == [[other + number] * 6 for other in range(3)]
            assert at_root == (gathered if rank == 1 else None)
            assert (row, sent) == ([rank + number] * 3, [1 + number] * 6)


def test_a_late_partner_is_waited_for_in_the_usual_way(beside, outcomes):
    def come_late(communicator, late):
        first, second = np.ones(4), np.ones(4)  # of which neither is known when it is used
        communicator.allreduce(first)
        late.wait(BOUND_S)
        communicator.allreduce(second)

    def let_go(late):
        deadline = time.monotonic() + BOUND_S
        while not outcomes and time.monotonic() < deadline:
            time.sleep(0.001)
        late.set()

    with beside(come_late) as (communicator, late):
        array = np.ones(4)
        communicator.allreduce(array)
        threading.Thread(target=let_go, args=(late,)).start()
        assert np.all(communicator.allreduce(array) == 2)
        assert communicator.status()["posted"] == 2
    assert outcomes
    assert outcomes[-1] is not True


def test_interrupted_call_goes_on(beside):
    """Ctrl-C while it waits: the device may still write, so the memory is kept and the stream stays in step."""
    results = []

    def come_late(communicator, late):
        communicator.allreduce(np.ones(4))
        late.wait(BOUND_S)
        results.extend(communicator.allreduce(np.full(4, number)) for number in (2.0, 3.0))

    with beside(come_late) as (communicator, late):
        array = np.ones(4)
        communicator.allreduce(array)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            communicator.allreduce(array)
        late.set()
        assert np.all(communicator.allreduce(array) == 4)
    assert [float(result[0]) for result in results] == [3, 4]


def test_failure_says_what_and_whom(deserted):
    communicator, left = deserted
    array = np.ones(4)
    communicator.allreduce(array)
    threading.Timer(0.05, left.set).start()
    with pytest.raises(errors.PeerLost, match=r"allreduce.*rank 0.*missing") as caught:
        communicator.allreduce(array)
    assert caught.value.missing_ranks == (1,)
    with pytest.raises(errors.FaninError):
        communicator.allreduce(array)


def test_device_that_ends(own_device, make_job):
    with Communicator(make_job(1), 0, own_device.socket) as communicator:
        array = np.ones(4)
        for _ in range(3):
            communicator.allreduce(array)
        own_device.kill()
        with pytest.raises(errors.DeviceLost):
            communicator.allreduce(array)


def test_closed_communicator(alone):
    array = np.ones(4)
    for _ in range(2):
        alone.allreduce(array)
    alone.close()
    with pytest.raises(errors.InvalidRequest, match="closed"):
        alone.allreduce(array)


def test_memory_that_comes_and_goes(alone):
    """Its key at the device is another one each time, at the same address perhaps."""
    for number in range(8):
        array = alone.alloc(1000)
        array[:] = number
        for _ in range(3):
            assert np.all(alone.allreduce(array, out=array) == number)
        del array


def test_not_while_something_else_is_under_way(device, make_job, outcomes):
    """The results of one stream come in order."""
    with Communicator(make_job(1), 0, device.socket) as communicator:
        array = np.ones(4)
        for _ in range(2):
            communicator.allreduce(array)
        requests = [communicator.iallreduce(array) for _ in range(3)]
        communicator.allreduce(array)
        assert all(request.done for request in requests)
    assert outcomes[-1] is False
    assert outcomes[0] is not False


class TestKey:
    """Calls with equal keys are the same call."""

    def test_same_memory(self):
        array = np.zeros(6, "f4")
        assert key_of(allreduce, (), (array,)) == key_of(allreduce, (), (array[:],))

    @pytest.mark.parametrize(
        "other", [np.zeros(5, "f4"), np.zeros(6, "i4"), np.zeros(6, ">f4"), np.zeros((2, 3), "f4")]
    )
    def test_other_memory_shape_or_type(self, other):
        array = np.frombuffer(bytearray(24), other.dtype.newbyteorder("=").name)
        same_place = np.ndarray(other.shape, other.dtype, array)
        first = np.ndarray(6, "f4", array)
        assert key_of(allreduce, (), (first,)) != key_of(allreduce, (), (same_place,))

    def test_read_only(self):
        array = np.zeros(6)
        before = key_of(allreduce, (), (array,))
        array.flags.writeable = False
        assert key_of(allreduce, (), (array,)) != before

    @pytest.mark.parametrize("value", [np.zeros((4, 4))[:, 0], [1.0, 2.0], np.float64(1), np.add])
    def test_what_has_none(self, value):
        assert key_of(allreduce, (), (value,)) is None

    def test_names_count(self):
        assert key_of(allreduce, ["root"], (1,)) != key_of(allreduce, ["op"], (1,))


def test_threads_that_call_with_the_same_memory(device, make_job):
    """Each gets a result of its own, although both do the same prepared call."""
    with Communicator(make_job(1), 0, device.socket) as communicator:
        array = np.arange(3000.0)

        def call(_: int) -> bool:
            return all(np.array_equal(communicator.allreduce(array), array) for _ in range(200))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(call, range(4)))


def test_what_the_host_computes_is_counted_each_time(run_ranks, device):
    def program(communicator):
        for _ in range(3):
            communicator.reduce(np.ones(3, "c8"), op="prod", root=0)
        return communicator.not_offloaded

    assert [sum(counts.values()) for counts in run_ranks(device, 2, program, fallback=True)] == [3, 3]


def test_arrays_that_say_how_are_read_each_time(alone, outcomes):
    """What counts hold is not in the key of the call: the program may change them."""
    array, counts = np.arange(4), np.array([4])
    for _ in range(3):
        assert np.array_equal(alone.allgatherv(array, counts=counts), array)
    assert outcomes == []


def test_the_calls_used_last_are_kept(alone, outcomes):
    """What is used now and then survives more others than are kept."""
    often, arrays = np.ones(1), [np.ones(1) for _ in range(RECENT + 20)]
    for array in arrays:
        alone.allreduce(array)
        alone.allreduce(often)
    assert len(outcomes) == len(arrays) - 1
    alone.allreduce(arrays[0])
    assert len(outcomes) == len(arrays) - 1
