"""Every collective, in equal parts: results, roots, in place or not, kinds of memory, shapes, forms."""

import functools

import numpy as np
import pytest

from fanin import Request, errors
from tests.waiting import BOUND_S

SIZE = 3
COUNTS = [0, 1, 3, 700, 20_000]  # elements of a rank's part: inline, one segment, many
ROOTS = range(SIZE)


def data(rank: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(-1000, 1000, shape).astype("i4")


def every(*shape: int) -> np.ndarray:
    """All ranks' data, by rank."""
    return np.stack([data(rank, *shape) for rank in range(SIZE)])


@pytest.fixture(params=[False, True], ids=["process", "registered"])
def placed(request):
    """Function: an array as it is, or in registered memory."""

    def place(communicator, array):
        if not request.param:
            return array
        memory = communicator.alloc(array.shape, array.dtype)
        memory[...] = array
        return memory

    return place


def test_reduce(run_ranks, device, placed):
    def program(communicator):
        found = []
        for count in COUNTS:
            for root in ROOTS:
                mine = placed(communicator, data(communicator.rank, count))
                found.append(communicator.reduce(mine, root=root))
                in_place = communicator.reduce(mine, out=mine, op="max", root=root)
                assert (in_place is mine) == (communicator.rank == root)
                found.append(in_place)
        return found

    results = run_ranks(device, SIZE, program)
    expected = [
        [every(count).sum(axis=0), every(count).max(axis=0)] if rank == root else [None, None]
        for rank in range(SIZE)
        for count in COUNTS
        for root in ROOTS
    ]
    flat = [value for rank in range(SIZE) for value in results[rank]]
    for value, wanted in zip(flat, [value for pair in expected for value in pair], strict=True):
        assert (value is None) == (wanted is None)
        assert wanted is None or np.array_equal(value, wanted)


def test_reduce_scatter(run_ranks, device, placed):
    def program(communicator):
        rank, found = communicator.rank, []
        for count in COUNTS:
            rows = placed(communicator, data(rank, SIZE, count))
            flat = rows.reshape(-1)
            out = np.empty(count, "i4")
            assert communicator.reduce_scatter(rows, out=out) is out
            assert np.array_equal(communicator.reduce_scatter(flat), out)
            assert communicator.reduce_scatter(rows).shape == (count,)
            own = rows[rank]
            assert communicator.reduce_scatter(rows, out=own) is own  # in place
            assert np.array_equal(own, out)
            found.append(out)
        return found

    for rank, found in enumerate(run_ranks(device, SIZE, program)):
        for count, part in zip(COUNTS, found, strict=True):
            assert np.array_equal(part, every(SIZE, count).sum(axis=0)[rank])


def test_broadcast(run_ranks, device, placed):
    def program(communicator):
        found = []
        for count in COUNTS:
            for root in ROOTS:
                array = placed(communicator, data(communicator.rank, count))
                assert communicator.broadcast(array, root) is array
                found.append(array.copy())  # a client has few regions
        return found

    wanted = [data(root, count) for count in COUNTS for root in ROOTS]
    for found in run_ranks(device, SIZE, program):
        assert all(map(np.array_equal, found, wanted))


def test_allgather(run_ranks, device, placed):
    def program(communicator):
        rank, found = communicator.rank, []
        for count in COUNTS:
            mine = placed(communicator, data(rank, 2, count))
            found.append(communicator.allgather(mine))
            rows = placed(communicator, np.zeros((SIZE, 2, count), "i4"))
            rows[rank] = mine
            assert communicator.allgather(rows[rank], out=rows) is rows  # in place
            assert np.array_equal(rows, found[-1])
        return found

    for found in run_ranks(device, SIZE, program):
        for count, rows in zip(COUNTS, found, strict=True):
            assert np.array_equal(rows, every(2, count))


def test_gather(run_ranks, device, placed):
    def program(communicator):
        rank = communicator.rank
        for count in COUNTS:
            for root in ROOTS:
                mine = placed(communicator, data(rank, count))
                rows = placed(communicator, np.zeros((SIZE, count), "i4"))
                rows[rank] = mine
                found = communicator.gather(mine, root=root)
                in_place = communicator.gather(rows[rank], out=rows, root=root)
                if rank == root:
                    assert in_place is rows
                    assert np.array_equal(found, every(count))
                    assert np.array_equal(rows, every(count))
                else:
                    assert found is in_place is None
        return True

    assert all(run_ranks(device, SIZE, program))


def test_scatter(run_ranks, device, placed):
    def program(communicator):
        rank = communicator.rank
        for count in COUNTS:
            for root in ROOTS:
                rows = placed(communicator, data(7, SIZE, count))
                whole = rows if rank == root else None
                part = communicator.scatter(whole, root=root, shape=(count,), dtype="i4")
                out = rows[rank] if rank == root else placed(communicator, np.empty(count, "i4"))
                assert communicator.scatter(whole, out=out, root=root) is out
                flat = communicator.scatter(rows.reshape(-1), root=root, shape=count, dtype="i4")
                for found in (part, out, flat):
                    assert np.array_equal(found, data(7, SIZE, count)[rank])
        return True

    assert all(run_ranks(device, SIZE, program))


def test_barrier(run_ranks, device):
    """No rank passes before the last one has come."""
    arrived: list[int] = []

    def program(communicator):
        for turn in range(5):
            arrived.append(turn)
            assert communicator.barrier() is None
            assert arrived.count(turn) == SIZE
        return communicator.status()["posted"]

    assert run_ranks(device, SIZE, program) == [5] * SIZE


@pytest.mark.parametrize("dtype", ["S7", "?", ">f8", "M8[s]", [("x", "f4"), ("name", "S3")], "c16"], ids=str)
def test_elements_of_any_type_move(run_ranks, device, dtype):
    def program(communicator):
        raw = np.random.default_rng(communicator.rank).integers(0, 2, 5 * np.dtype(dtype).itemsize, "u1")
        mine = raw.view(dtype)
        rows = communicator.allgather(mine)
        assert (rows.dtype, rows.shape) == (np.dtype(dtype), (2, 5))
        part = communicator.scatter(rows, root=1, shape=5, dtype=dtype)
        assert part.tobytes() == rows[communicator.rank].tobytes() == mine.tobytes()
        return communicator.broadcast(mine, root=1).tobytes() == rows[1].tobytes()

    assert run_ranks(device, 2, program) == [True, True]


def test_non_blocking_forms(run_ranks, device):
    """All at once, waited for in reverse."""

    def program(communicator):
        rank, mine = communicator.rank, data(communicator.rank, 4)
        requests = [
            communicator.iallreduce(mine),
            communicator.ireduce(mine, root=1),
            communicator.ireduce_scatter(data(rank, SIZE, 4)),
            communicator.ibroadcast(mine.copy(), root=2),
            communicator.iallgather(mine),
            communicator.igather(mine, root=1),
            communicator.iscatter(every(4), root=0, shape=4, dtype="i4"),
            communicator.iallgatherv(mine[: rank + 1]),
            communicator.igatherv(mine[:rank], root=1),
            communicator.iscatterv(np.arange(6) if rank == 2 else None, [1, 2, 3], root=2, dtype=int),
            communicator.ibarrier(),
        ]
        assert all(isinstance(request, Request) for request in requests)
        return [request.wait(BOUND_S) for request in reversed(requests)][::-1]

    total, rows = every(4).sum(axis=0), every(SIZE, 4).sum(axis=0)
    parts = [np.concatenate([data(rank, 4)[: rank + more] for rank in range(SIZE)]) for more in (1, 0)]
    for rank, found in enumerate(run_ranks(device, SIZE, program)):
        at_root = rank == 1
        wanted = [
            total,
            total if at_root else None,
            rows[rank],
            data(2, 4),
            every(4),
            every(4) if at_root else None,
            data(rank, 4),
            parts[0],
            parts[1] if at_root else None,
            [[0], [1, 2], [3, 4, 5]][rank],
            None,
        ]
        for value, expected in zip(found, wanted, strict=True):
            assert np.array_equal(value, expected) if expected is not None else value is None


def test_two_hundred_outstanding(run_ranks, device):
    """All kinds of operations, on two communicators, under way together."""

    def program(communicator):
        other = communicator.dup()
        requests = []
        for number in range(50):
            mine = np.full(number + 1, communicator.rank, "i4")
            requests += [
                communicator.iallreduce(mine),
                other.iallgather(mine),
                communicator.ireduce_scatter(np.full(2 * SIZE, number)),
                other.ibroadcast(mine.copy(), root=number % SIZE),
            ]
        found = [request.wait(BOUND_S) for request in reversed(requests)][::-1]
        other.close()
        for number in range(50):
            total, rows, part, same = found[4 * number : 4 * number + 4]
            assert np.array_equal(total, np.full(number + 1, 3))
            assert np.array_equal(rows[:, 0], range(SIZE))
            assert np.array_equal(part, [3 * number] * 2)
            assert np.array_equal(same, np.full(number + 1, number % SIZE))
        return len(found)

    assert run_ranks(device, SIZE, program) == [200] * SIZE


def test_fence_lets_results_be_inputs(run_ranks, device):
    def program(communicator):
        array = np.full(5000, 1 + communicator.rank, "i4")
        communicator.ireduce(array, out=array, root=0)
        communicator.ibroadcast(array, root=0, fence=True)
        return communicator.allreduce(array, fence=True)

    for result in run_ranks(device, 2, program):
        assert np.array_equal(result, np.full(5000, 6))


@pytest.mark.parametrize("root", [-1, SIZE, 1.0, "0", None], ids=str)
def test_invalid_root(run_ranks, device, root):
    def program(communicator):
        for use in (communicator.broadcast, communicator.reduce, communicator.gather, communicator.scatter):
            with pytest.raises(errors.InvalidRequest, match="root"):
                use(np.zeros(SIZE), root=root)
        return True

    assert run_ranks(device, 1, program) == [True]


def test_parts_that_do_not_fit(run_ranks, device):
    def program(communicator):
        for use in (communicator.reduce_scatter, functools.partial(communicator.scatter, root=communicator.rank)):
            with pytest.raises(errors.InvalidRequest, match="divided equally among 2 ranks"):
                use(np.zeros(3))
            with pytest.raises(errors.InvalidRequest, match=r"not have one row for each of 2 ranks.*reshape"):
                use(np.zeros((3, 2)))
        with pytest.raises(errors.InvalidRequest, match="out, or shape and dtype"):
            communicator.scatter(root=1 - communicator.rank, shape=3)
        return True

    assert run_ranks(device, 2, program) == [True, True]


def test_overlaps_that_are_not_in_place(run_ranks, device):
    def program(communicator):
        memory, other = np.zeros((2, 4), "i4"), 1 - communicator.rank
        with pytest.raises(errors.InvalidRequest, match="overlaps"):
            communicator.allgather(memory[other], out=memory)
        with pytest.raises(errors.InvalidRequest, match="overlaps"):
            communicator.reduce_scatter(memory, out=memory[other])
        with pytest.raises(errors.InvalidRequest, match="overlaps"):
            communicator.scatter(memory, out=memory.reshape(-1)[1:5], root=communicator.rank)
        return True

    assert run_ranks(device, 2, program) == [True, True]
