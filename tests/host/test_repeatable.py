"""Blocking collectives that the driver core does again alone: that it does, and that the results are the same.

What tells is the Python function behind each of them, which is not called then.
"""

from __future__ import annotations

import functools
import gc
import sys

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.prepared import KEPT


@pytest.mark.parametrize("count", [2, 5, 5000, 500_000], ids=["inline", "short", "long", "parts"])
@pytest.mark.parametrize("registered", [False, True], ids=["process", "registered"])
@pytest.mark.parametrize("given", [True, False], ids=["out", "new"])
def test_what_the_memory_holds_now_counts(forms, alone, count, registered, given):
    make = alone.alloc if registered else np.zeros
    array, out = make(count, "f4"), make(count, "f4")
    results = []
    for number in range(6):
        array[:] = number
        results.append(alone.allreduce(array, out=out) if given else alone.allreduce(array))
        assert np.all(results[-1] == number)
    assert all(result is out for result in results) == given
    assert len({result.ctypes.data for result in results}) == (1 if given else 6)
    alone_can = (registered and given) or array.nbytes <= KEPT
    assert forms.count("run") <= 2 if alone_can else "go_on" not in forms  # the first makes it known, the next ready


def test_every_collective(run_ranks, device, forms):
    def program(communicator):
        rank, size, found = communicator.rank, communicator.size, []
        data, rows, mine = np.zeros(2 * size, "i8"), np.zeros((size, 3), "i8"), np.zeros(3, "i8")
        calls = [
            functools.partial(communicator.allreduce, data),
            functools.partial(communicator.allreduce, data, op="max"),
            functools.partial(communicator.reduce_scatter, data),
            functools.partial(communicator.reduce, data, root=1),
            functools.partial(communicator.allgather, data),
            functools.partial(communicator.gather, data, root=1),
            functools.partial(communicator.scatter, rows, out=mine, root=1),
            functools.partial(communicator.broadcast, data, root=1),
            communicator.barrier,
        ]
        for number in range(4):
            rows[:] = np.arange(size)[:, None] + number
            for call in calls:
                data[:] = rank + number
                result = call()
                found.append(None if result is None else result.tolist())
        return found

    for rank, found in enumerate(run_ranks(device, 3, program)):
        for number in range(4):
            total, most, part, reduced, gathered, at_root, row, sent, nothing = found[9 * number : 9 * number + 9]
            assert (total, most) == ([3 + 3 * number] * 6, [2 + number] * 6)
            assert (part, nothing) == ([3 + 3 * number] * 2, None)
            assert reduced == (total if rank == 1 else None)
            assert gathered == [[other + number] * 6 for other in range(3)]
            assert at_root == (gathered if rank == 1 else None)
            assert (row, sent) == ([rank + number] * 3, [1 + number] * 6)
    # Three ranks, nine collectives, four times: of each the first two; more where another rank of them is slow.
    assert forms.count("run") < 3 * 9 * 3


def test_calls_in_turn(forms, alone):
    """Each is known as what followed the one before."""
    arrays = [np.full(3, float(number)) for number in range(5)]
    for _ in range(2):
        for array in arrays:
            alone.allreduce(array, out=array)
    forms.clear()
    for array in arrays * 3:
        assert alone.allreduce(array, out=array) is array
    assert "run" not in forms


def test_other_arguments_are_other_calls(ready, forms):
    communicator, array = ready
    other = np.ones(1000)
    assert communicator.allreduce(other, out=other) is other
    assert np.all(other == 1)
    communicator.allreduce(array, array)  # the same, said in another way
    communicator.allreduce(array, out=array, op="max")
    assert communicator.allreduce(array.view(), out=array) is array
    communicator.allreduce(array[:500])
    communicator.reduce(array, out=array)
    assert forms.count("run") >= 5
    assert np.all(array == 3)


@pytest.mark.parametrize("change", ["shape", "dtype", "flags"])
def test_an_array_that_was_changed_in_place(ready, forms, change):
    communicator, array = ready
    if change == "shape":
        array.shape = (10, 100)
    elif change == "dtype":
        array.dtype = np.int64
    else:
        array.flags.writeable = False
        with pytest.raises(errors.InvalidRequest):
            communicator.allreduce(array, out=array)
    if change != "flags":
        assert communicator.allreduce(array, out=array) is array
    assert forms == ["run"]


@pytest.mark.parametrize(("ways", "runs"), [([], 2), (["in_python"], 4)], ids=["driver core", "Python"])
def test_memory_that_comes_and_goes(request, forms, ways, runs):
    """Its key at the device is another one each time, at the same address perhaps."""
    *_, alone = [request.getfixturevalue(name) for name in [*ways, "alone"]]
    for number in range(8):
        array = alone.alloc(1000)
        array[:] = number
        for _ in range(4):
            assert np.all(alone.allreduce(array, out=array) == number)
        del array
    assert forms.count("run") == 8 * runs


def test_nothing_is_kept_alive(ready, forms):
    """Neither by what it returns nor by what it was given."""
    communicator, array = ready

    def references():
        known = communicator.direct.last
        objects = array, known, known._spare[0], known._spare, communicator._again, None
        gc.collect()
        return [sys.getrefcount(each) for each in objects]

    before = references()
    for _ in range(1000):
        communicator.allreduce(array, out=array)
    assert forms == []
    new = communicator.allreduce(array)
    for _ in range(1000):
        new = communicator.allreduce(array)
    assert sys.getrefcount(new) == 2
    communicator.allreduce(array, out=array)
    assert all(abs(late - early) < 100 for early, late in zip(before, references(), strict=True))


def test_a_closed_communicator(ready, forms):
    communicator, array = ready
    communicator.close()
    with pytest.raises(errors.InvalidRequest, match="closed"):
        communicator.allreduce(array, out=array)
    assert forms == ["run"]


def test_one_that_is_about_to_close(ready, forms):
    """Another thread has begun to."""
    communicator, array = ready
    communicator._member.stream.stop()
    with pytest.raises(errors.InvalidRequest, match="closed"):
        communicator.allreduce(array, out=array)
    assert forms == ["run"]


def test_a_device_that_ends(forms, own_device, make_job):
    with Communicator(make_job(1), 0, own_device.socket) as communicator:
        array = np.ones(4)
        for _ in range(3):
            communicator.allreduce(array, out=array)
        own_device.kill()
        forms.clear()
        with pytest.raises(errors.DeviceLost):
            communicator.allreduce(array, out=array)
        assert forms == ["go_on"]
