"""Blocking collectives done again at once: that they are, and that nobody can tell but by the clock."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.direct import RECENT

BOUND_S = 20


@pytest.mark.parametrize("count", [2, 5, 5000], ids=["inline", "short", "long"])
@pytest.mark.parametrize("registered", [False, True], ids=["process", "registered"])
def test_what_the_memory_holds_now_counts(outcomes, alone, count, registered):
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


def test_new_results_are_apart(outcomes, alone):
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


def test_communicator_that_is_about_to_close(outcomes, alone):
    """Another thread has begun to."""
    array = np.ones(4)
    for _ in range(2):
        alone.allreduce(array)
    alone._member.stream.stop()
    with pytest.raises(errors.InvalidRequest, match="closed"):
        alone.allreduce(array)
    assert outcomes[-1] is False


def test_not_while_something_else_is_under_way(outcomes, device, make_job):
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


@pytest.fixture
def no_search(monkeypatch):
    """Function: from now on no call is searched for by its key."""

    def search(*_):
        raise AssertionError("it was searched for")

    return lambda: monkeypatch.setattr("fanin.direct.key_of", search)


def test_calls_in_turn_are_not_searched_for(outcomes, alone, no_search):
    arrays = [np.full(3, number) for number in range(5)]
    for turn in range(4):
        for array in arrays:
            assert np.array_equal(alone.allreduce(array, out=array), array)
        alone.barrier()
        if turn == 2:
            no_search()
    assert False not in outcomes


def test_an_array_that_changes_in_place(alone):
    """It is the same object, and was called with just before."""
    array, out = np.arange(6), np.zeros(6, int)
    for _ in range(3):
        alone.allreduce(array, out=out)
    array.resize((2, 3))
    assert alone.allreduce(array).shape == (2, 3)
    array.resize(3)
    with pytest.raises(errors.InvalidRequest):
        alone.allreduce(array, out=out)
    array.resize(6)
    for _ in range(3):
        assert alone.allreduce(array, out=out) is out
    out.flags.writeable = False
    with pytest.raises(errors.InvalidRequest):
        alone.allreduce(array, out=out)


def test_other_values(alone):
    """With the same arrays, at the same places."""
    array, out = np.array([3, 4]), np.zeros(2, int)
    for _ in range(3):
        assert alone.allreduce(array, out) is out
    assert alone.allreduce(array) is not out
    with pytest.raises(errors.InvalidRequest):
        alone.allreduce(array, out, timeout=-1)
    with pytest.raises(TypeError):
        alone.allreduce(array, out, output=out)
    assert alone.reduce(array, out) is out


def test_no_array_is_kept_alive(alone):
    array, out = np.ones(6), np.zeros(6)
    for _ in range(3):
        alone.allreduce(array, out=out)
    ends = [weakref.ref(memory) for memory in (array, out)]
    del array, out
    assert [end() for end in ends] == [None, None]


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


def test_arrays_that_say_how_are_read_each_time(outcomes, alone):
    """What counts hold is not in the key of the call: the program may change them."""
    array, counts = np.arange(4), np.array([4])
    for _ in range(3):
        assert np.array_equal(alone.allgatherv(array, counts=counts), array)
    assert outcomes == []


def test_calls_that_are_let_go_of_are_gone_at_once(alone):
    """With what stands in for their memory, and whatever followed them."""
    arrays = [np.ones(1) for _ in range(RECENT + 2)]
    gc.collect()
    gc.disable()
    try:
        for array in (*arrays[:2], *arrays[:2]):
            alone.allreduce(array)
        ends = [weakref.ref(remembered) for remembered in alone.direct._known.values()]
        for _ in range(2):
            for array in arrays[2:]:
                alone.allreduce(array)
        assert [end() for end in ends] == [None, None]
    finally:
        gc.enable()


@pytest.fixture
def meanwhile(alone, monkeypatch):
    """Function: another thread does something when the first call has been made, and is not known yet. The list that it
    returns gets what came to be known, but for None, as weak references."""

    def arm(do):
        made = []
        remember = alone.direct._remember

        def watched(_direct, *arguments):
            if not made:
                made.append(None)
                thread = threading.Thread(target=do)
                thread.start()
                thread.join(BOUND_S)
            remembered = remember(*arguments)
            made.append(weakref.ref(remembered))
            return remembered

        monkeypatch.setattr(type(alone.direct), "_remember", watched)
        return made

    return arm


def test_threads_that_make_the_same_call_for_the_first_time(alone, meanwhile):
    """One of them is known then; what the other has made is gone at once."""
    array = np.ones(1)
    alone.barrier()
    gc.collect()
    gc.disable()
    try:
        made = meanwhile(lambda: alone.allreduce(array))
        alone.allreduce(array)
        known = [end() for end in made[1:] if end() is not None]
        assert len(made) == 3
        assert len(known) == 1
        assert known[0] in alone.direct._known.values()
    finally:
        gc.enable()


def test_memory_that_comes_while_a_call_is_made(alone, meanwhile):
    """What was made before is not known after it: its memory may be at this place now, with another key."""
    array, memory = np.ones(1), []

    def come():
        memory.append(alone.alloc(1000))
        for _ in range(2):  # at which all that was known is forgotten
            alone.barrier()

    meanwhile(come)
    alone.allreduce(array)
    version = alone.direct._regions.version
    assert {remembered.version for remembered in alone.direct._known.values()} == {version}
    assert np.all(alone.allreduce(array) == 1)


def test_an_array_that_is_reshaped_while_a_call_is_made(alone, meanwhile):
    """It is not taken for what it was, nor the call for one with what it is."""
    array = np.ones(6)
    meanwhile(lambda: setattr(array, "shape", (2, 3)))
    assert alone.allreduce(array).shape == (6,)
    assert alone.allreduce(array).shape == (2, 3)


def test_the_calls_used_last_are_kept(outcomes, alone):
    """What is used now and then survives more others than are kept."""
    often, arrays = np.ones(1), [np.ones(1) for _ in range(RECENT + 20)]
    for array in arrays:
        alone.allreduce(array)
        alone.allreduce(often)
    assert len(outcomes) == len(arrays) - 1
    alone.allreduce(arrays[0])
    assert len(outcomes) == len(arrays) - 1
