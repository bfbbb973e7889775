"""Collectives with parts of different sizes: runs, zeros, counts that only some ranks know."""

from types import SimpleNamespace

import numpy as np
import pytest

from fanin import errors
from fanin.collectives import definitions, vector
from tests.waiting import BOUND_S

COUNTS = [(0, 0, 0), (0, 5, 0), (3, 3, 3), (3, 3, 1), (1, 2, 3), (3000, 0, 3000), (5000, 7, 5000)]
SIZE, ROOT = 3, 1


def whole(counts: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(sum(counts)).integers(-99, 99, sum(counts)).astype("i2")


def part(counts: tuple[int, ...], rank: int) -> np.ndarray:
    start = sum(counts[:rank])
    return whole(counts)[start : start + counts[rank]]


@pytest.fixture(params=[True, False], ids=["known", "exchanged"])
def known(request):
    """Function: what is given as counts."""
    return lambda counts: counts if request.param else None


def test_allgatherv(run_ranks, device, known):
    def program(communicator):
        found = []
        for counts in COUNTS:
            mine = part(counts, communicator.rank)
            found.append(communicator.allgatherv(mine, counts=known(counts)))
            out = np.zeros(sum(counts), "i2")
            start = sum(counts[: communicator.rank])
            own = out[start : start + len(mine)]
            own[:] = mine
            assert communicator.allgatherv(own, out=out, counts=known(counts)) is out  # in place
            assert np.array_equal(out, found[-1])
        return found

    for found in run_ranks(device, SIZE, program):
        assert all(map(np.array_equal, found, map(whole, COUNTS)))


def test_gatherv(run_ranks, device, known):
    def program(communicator):
        return [
            communicator.gatherv(part(counts, communicator.rank), root=ROOT, counts=known(counts)) for counts in COUNTS
        ]

    results = run_ranks(device, SIZE, program)
    assert results[0] == results[2] == [None] * len(COUNTS)
    assert all(map(np.array_equal, results[ROOT], map(whole, COUNTS)))


def test_scatterv(run_ranks, device, known):
    def program(communicator):
        found = []
        for counts in COUNTS:
            at_root = communicator.rank == ROOT
            agreed = known(counts) is not None
            array = whole(counts) if at_root else None
            given = counts if at_root or agreed else None
            mine = communicator.scatterv(array, given, root=ROOT, dtype="i2", agreed=agreed)
            out = np.empty(counts[communicator.rank], "i2")
            assert communicator.scatterv(array, given, out=out, root=ROOT, agreed=agreed) is out
            assert np.array_equal(out, mine)
            found.append(mine)
        return found

    for rank, found in enumerate(run_ranks(device, SIZE, program)):
        for counts, mine in zip(COUNTS, found, strict=True):
            assert np.array_equal(mine, part(counts, rank))


def test_reduce_scatter(run_ranks, device):
    def program(communicator):
        found = []
        for counts in COUNTS:
            array = whole(counts) * np.int16(communicator.rank + 1)
            found.append(communicator.reduce_scatter(array, counts=counts))
            start = sum(counts[: communicator.rank])
            own = array[start : start + counts[communicator.rank]]
            communicator.reduce_scatter(array, out=own, counts=counts)  # in place
            assert np.array_equal(own, found[-1])
        return found

    for rank, found in enumerate(run_ranks(device, SIZE, program)):
        for counts, mine in zip(COUNTS, found, strict=True):
            assert np.array_equal(mine, part(counts, rank) * np.int16(6))


def test_more_messages_than_the_queue_holds(run_ranks, device):
    """A call of many runs: unsignaled requests between signaled ones, which find room again."""
    turns = 120

    def program(communicator):
        rank = communicator.rank
        requests = [
            communicator.iallgatherv(np.full(1 + (turn + rank) % SIZE, rank, "u1"), counts=sizes(turn))
            for turn in range(turns)
        ]
        return [request.wait(BOUND_S) for request in requests], communicator.status()

    def sizes(turn):
        return [1 + (turn + rank) % SIZE for rank in range(SIZE)]

    for found, status in run_ranks(device, SIZE, program):
        for turn, array in enumerate(found):
            assert np.array_equal(array, np.repeat(np.arange(SIZE, dtype="u1"), sizes(turn)))
        assert (status["posted"], status["outstanding"], status["backlog"]) == (turns, 0, 0)


def test_exchange_keeps_the_order_of_calls(run_ranks, device):
    """Ranks learn counts at different times; what they have started afterwards keeps its place."""

    def program(communicator):
        rank = communicator.rank
        uneven = [communicator.iallgatherv(np.full(rank + turn, turn)) for turn in range(10)]
        even = [communicator.iallreduce(np.full(3, turn)) for turn in range(10)]
        assert [int(request.wait(BOUND_S)[0]) for request in even] == [SIZE * turn for turn in range(10)]
        return [request.wait(BOUND_S).tolist() for request in uneven]

    expected = [[turn] * (3 * turn + 3) for turn in range(10)]
    assert run_ranks(device, SIZE, program) == [expected] * SIZE


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((1, 2), "one for each rank"),
        ((1, 2, 3), "counts give rank 0 1 elements, but its array has 4"),
        ((4, -1, 0), "from 0 on"),
        ((4, 1.5, 0), "whole numbers"),
        (4, "whole numbers"),
    ],
    ids=str,
)
def test_wrong_counts(run_ranks, device, counts, text):
    def program(communicator):
        if communicator.rank == 0:
            with pytest.raises(errors.InvalidRequest, match=text):
                communicator.allgatherv(np.zeros(4), counts=counts)
        return True

    assert run_ranks(device, SIZE, program) == [True] * SIZE


def test_wrong_use_of_scatterv(run_ranks, device):
    def program(communicator):
        with pytest.raises(errors.InvalidRequest, match="counts are missing"):
            communicator.scatterv(np.zeros(4), root=communicator.rank)
        with pytest.raises(errors.InvalidRequest, match="counts are missing"):
            communicator.scatterv(dtype="f4", root=1 - communicator.rank, agreed=True)
        with pytest.raises(errors.InvalidRequest, match="out, or dtype"):
            communicator.scatterv(root=1 - communicator.rank)
        with pytest.raises(errors.InvalidRequest, match="add up to 3 elements, but the array has 4"):
            communicator.scatterv(np.zeros(4), [1, 2], root=communicator.rank)
        with pytest.raises(errors.InvalidRequest, match="add up to 3 elements, but the array has 4"):
            communicator.reduce_scatter(np.zeros(4), counts=[1, 2])
        return True

    assert run_ranks(device, 2, program) == [True, True]


def test_out_that_turns_out_too_small(run_ranks, device):
    """Known only with the counts: the wait raises, on this rank alone, and nothing else suffers."""

    def program(communicator):
        if communicator.rank == 1:
            with pytest.raises(errors.InvalidRequest, match=r"out has 3 elements .* the result has 4"):
                communicator.allgatherv(np.zeros(2), out=np.zeros(3))
        else:
            assert communicator.allgatherv(np.zeros(2)).size == 4
        return communicator.allreduce(np.ones(1), timeout=BOUND_S)[0]

    assert run_ranks(device, 2, program) == [2.0, 2.0]


def test_result_without_memory(run_ranks, device, monkeypatch):
    """An error after the parts have come ends the request, and every wait for it raises the error."""

    def program(communicator):
        first = communicator.iallgatherv(np.ones(4))
        assert first.wait(BOUND_S).size == 8
        communicator.barrier()
        monkeypatch.setattr(vector, "room", no_room)
        failed = communicator.iallgatherv(np.ones(4))
        for _ in range(2):
            with pytest.raises(MemoryError):
                failed.wait(BOUND_S)
        return communicator.allreduce(np.ones(1), timeout=BOUND_S)[0]

    def no_room(*arguments):
        raise MemoryError

    assert run_ranks(device, 2, program) == [2.0, 2.0]


def test_limit_covers_the_exchange_and_the_parts():
    """Each of the two has the whole timeout, and the device some seconds more to report it."""
    alone_group = SimpleNamespace(rank=0, size=1)
    array = np.ones(3)
    assert definitions.allgatherv(alone_group, array, timeout=3.0).limit == 8.0
    assert definitions.allgatherv(alone_group, array, counts=(3,), timeout=3.0).limit == 5.0
    assert definitions.allgatherv(alone_group, array).limit == -1
