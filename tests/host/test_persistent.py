"""Persistent requests: prepared once, started often, in any order."""

import gc
import weakref

import numpy as np
import pytest

from fanin import device_status, errors
from tests.waiting import BOUND_S

SIZE = 3
CHUNK = 256  # bytes of a segment


def test_started_many_times(run_ranks, device):
    def program(communicator):
        array = np.zeros(3000, "i4")
        request = communicator.allreduce_init(array)
        found = []
        for turn in range(20):
            array[:] = turn * communicator.rank
            found.append(request.start().wait()[0])
        return [int(value) for value in found]

    assert run_ranks(device, SIZE, program) == [[3 * turn for turn in range(20)]] * SIZE


def test_every_collective(run_ranks, device):
    def program(communicator):
        rank, mine = communicator.rank, np.array([communicator.rank, 1], "i4")
        at_root = rank == 1
        with (
            communicator.reduce_init(mine, root=1) as reduce,
            communicator.reduce_scatter_init(np.arange(SIZE)) as part,
            communicator.broadcast_init(mine.copy(), root=2) as same,
            communicator.allgatherv_init(mine[:rank]) as uneven,
            communicator.scatterv_init(np.arange(6) if at_root else None, [3, 2, 1], root=1, dtype=int) as slices,
            communicator.barrier_init() as barrier,
        ):
            found = []
            for _ in range(3):
                for request in (reduce, part, same, uneven, slices, barrier):
                    request.start()
                found = [request.wait() for request in (reduce, part, same, uneven, slices, barrier)]
        assert found[5] is None
        assert found[0].tolist() == [3, 3] if at_root else found[0] is None
        return [value.tolist() for value in found[1:5]]

    for rank, found in enumerate(run_ranks(device, SIZE, program)):
        assert found == [[3 * rank], [2, 1], [1, 2, 1], [[0, 1, 2], [3, 4], [5]][rank]]


def test_started_in_different_orders(run_ranks, device):
    """Each rank starts and waits in its own order: every request has its own stream."""

    def program(communicator):
        arrays = [np.full(2000, number * 10 + communicator.rank) for number in range(SIZE)]
        requests = [communicator.allreduce_init(array) for array in arrays]
        order = [(number + communicator.rank) % SIZE for number in range(SIZE)]
        for _ in range(10):
            for number in order:
                requests[number].start()
            found = {number: requests[number].wait(BOUND_S)[0] for number in order[::-1]}
        return [int(found[number]) for number in range(SIZE)]

    assert run_ranks(device, SIZE, program) == [[30 * number + 3 for number in range(SIZE)]] * SIZE


def test_ordered_ones_share_the_stream(run_ranks, device):
    before = device_status(device.socket)["queues"]

    def program(communicator):
        array = np.full(4, communicator.rank)
        request = communicator.allreduce_init(array, ordered=True)
        request.start()
        total = communicator.allreduce(array)
        communicator.barrier()
        queues = device_status(device.socket)["queues"] - before
        communicator.barrier()
        request.close()
        return np.array_equal(request.wait(), total), queues

    assert run_ranks(device, 2, program) == [(True, 2)] * 2


def test_ordered_ones_end_with_the_program_that_used_them(run_ranks, device):
    """The communicator does not keep them: a program may make one in each step of a long loop."""

    def program(communicator):
        request = weakref.ref(communicator.barrier_init(ordered=True))
        gc.collect()
        return request()

    assert run_ranks(device, 2, program) == [None, None]


@pytest.mark.parametrize(
    ("of_job", "positions", "slots"),
    [(64, 0, 8), (64, 1, 8), (64, 4, 8), (64, 5, 16), (64, 16, 32), (64, 17, 64), (64, 1000, 64), (8, 1000, 8)],
)
def test_slots_of_an_own_stream(run_ranks, device, of_job, positions, slots):
    """Twice what the request can fill, as a power of two; at least 8, and at most as many as the job has."""

    def program(communicator):
        earlier = {job["jid"] for job in device_status(device.socket)["jobs"]}  # of the previous test, too
        communicator.barrier()
        with communicator.allreduce_init(np.ones(positions * CHUNK, "u1")) as request:
            leased = [job["slots"] for job in device_status(device.socket)["jobs"] if job["jid"] not in earlier]
            assert request.start().wait(BOUND_S).tolist() == [2] * (positions * CHUNK)
            communicator.barrier()
        return communicator.status()["slots"], leased

    assert run_ranks(device, 2, program, slots=of_job, chunk=CHUNK) == [(of_job, [slots])] * 2


def test_only_an_array_that_is_sent_must_last(run_ranks, device):
    def program(communicator):
        array = np.arange(4) if communicator.rank == 0 else [1, 2]  # used on the root only
        with (
            communicator.barrier_init(30.0) as barrier,
            communicator.scatter_init(array, shape=2, dtype=int) as scatter,
            communicator.scatterv_init(array, [1, 3], dtype=int) as scatterv,
        ):
            barrier.start().wait(BOUND_S)
            if communicator.rank == 0:
                with pytest.raises(errors.InvalidRequest, match="copy"):
                    communicator.scatterv_init(np.arange(8)[::2], [1, 3])
            return [request.start().wait(BOUND_S).tolist() for request in (scatter, scatterv)]

    assert run_ranks(device, 2, program) == [[[0, 1], [0]], [[2, 3], [1, 2, 3]]]


def test_misuse(run_ranks, device):
    def program(communicator):
        array = np.zeros((4, 4), "i4")
        with pytest.raises(errors.InvalidRequest, match="copy"):
            communicator.allreduce_init(array[:, 1])
        with pytest.raises(errors.InvalidRequest, match="copy"):
            communicator.allreduce_init(np.float32(3))
        request = communicator.allreduce_init(array=array)
        with pytest.raises(errors.InvalidRequest, match="start"):
            request.wait()
        if communicator.rank == 0:
            request.start()
            assert request.test() is False
            with pytest.raises(errors.InvalidRequest, match="still under way"):
                request.start()
            communicator.barrier()
        else:
            communicator.barrier()
            request.start()
        request.wait(BOUND_S)
        request.close()
        request.close()
        with pytest.raises(errors.InvalidRequest, match="closed"):
            request.start()
        return True

    assert run_ranks(device, 2, program) == [True, True]


def test_closed_with_its_communicator(run_ranks, device):
    requests = []

    def program(communicator):
        requests.append(communicator.barrier_init())
        return True

    assert run_ranks(device, 2, program) == [True, True]
    for request in requests:
        with pytest.raises(errors.InvalidRequest, match="closed"):
            request.start()


def test_starts_again_after_a_failure(run_ranks, device):
    """start() does not raise the previous start's error; only wait() and test() do."""

    def program(communicator):
        fails = [True]

        def add(one, other):
            if fails:
                raise ZeroDivisionError
            return one + other

        with communicator.allreduce_init(np.ones(4), op=add) as request:
            with pytest.raises(ZeroDivisionError):
                request.start().wait(BOUND_S)
            fails.clear()
            return request.start().wait(BOUND_S)[0]

    assert run_ranks(device, 2, program, fallback=True) == [2.0, 2.0]
