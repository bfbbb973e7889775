"""Results are right for every kind of memory on every data path, even if the memory was used before."""

import ctypes
import itertools
import mmap

import numpy as np
import pytest

from fanin import errors
from tests.waiting import BOUND_S

SIZES = [1, 2, 3, 700, 20_000, 300_000]  # doubles: within the request, one copy, many segments, copied in parts
KINDS = ["ordinary", "registered"]
PAIRS = [*itertools.product(KINDS, KINDS)]


def make(communicator, kind: str, count: int) -> np.ndarray:
    return communicator.alloc(count, "f8") if kind == "registered" else np.zeros(count)


def data(rank: int, count: int, turn: int) -> np.ndarray:
    return np.arange(count, dtype="f8") * (rank + 1) + turn


def total(count: int, turn: int) -> np.ndarray:
    return data(0, count, turn) + data(1, count, turn)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_from_one_kind_to_another(run_ranks, device, pair):
    """The same memory each time, blocking and non-blocking in turns."""

    def program(communicator):
        for count in SIZES:
            source, out = (make(communicator, kind, count) for kind in pair)
            for turn in range(4):
                source[:] = data(communicator.rank, count, turn)
                if turn % 2:
                    assert communicator.allreduce(source, out=out) is out
                else:
                    assert communicator.iallreduce(source, out=out).wait(BOUND_S) is out
                assert np.array_equal(out, total(count, turn))
                assert np.array_equal(source, data(communicator.rank, count, turn))
        return True

    assert all(run_ranks(device, 2, program))


@pytest.mark.parametrize("kind", KINDS)
def test_in_place(run_ranks, device, kind):
    def program(communicator):
        for count in SIZES:
            memory = make(communicator, kind, count)
            for turn in range(3):
                memory[:] = data(communicator.rank, count, turn)
                communicator.allreduce(memory, out=memory)
                assert np.array_equal(memory, total(count, turn))
        return True

    assert all(run_ranks(device, 2, program))


def test_ranks_with_different_kinds(run_ranks, device):
    """A rank that copies and one that does not must agree."""

    def program(communicator):
        for count in SIZES:
            for first, second in PAIRS:
                memory = make(communicator, (first, second)[communicator.rank], count)
                memory[:] = data(communicator.rank, count, 5)
                assert np.array_equal(communicator.allreduce(memory), total(count, 5))
                communicator.broadcast(memory, root=1)
                assert np.array_equal(memory, data(1, count, 5))
        return True

    assert all(run_ranks(device, 2, program))


def test_new_arguments_on_every_call(run_ranks, device):
    def program(communicator):
        kept, random = [], np.random.default_rng(3)
        for turn in range(300):
            count = int(random.integers(1, 3000))
            dtype = ["f4", "f8", "i4", "i8"][turn % 4]
            mine = data(communicator.rank, count, turn).astype(dtype)
            op = ["sum", "max"][turn % 2]
            found = communicator.allreduce(mine, op=op)
            parts = [data(rank, count, turn).astype(dtype) for rank in range(2)]
            assert np.array_equal(found, parts[0] + parts[1] if op == "sum" else np.maximum(*parts))
            assert found.dtype == dtype
            kept.append((found, found.copy()))
        return all(np.array_equal(found, copy) for found, copy in kept)

    assert all(run_ranks(device, 2, program))


@pytest.mark.parametrize("offset", [1, 3, 4])
def test_unaligned_memory(run_ranks, device, offset):
    def program(communicator):
        for count in SIZES:
            raw, result = (np.zeros(count * 8 + 8, "u1") for _ in range(2))
            mine, out = (memory[offset : offset + count * 8].view("f8") for memory in (raw, result))
            mine[:] = data(communicator.rank, count, 1)
            communicator.allreduce(mine, out=out)
            assert np.array_equal(out, total(count, 1))
            assert not result[:offset].any()
            assert not result[offset + count * 8 :].any()
        return True

    assert all(run_ranks(device, 2, program))


def test_result_that_the_program_may_not_write(run_ranks, device, monkeypatch):
    """The device writes it by a system call, which ignores page rights."""
    monkeypatch.setenv("FANIN_STAGING", "0")
    libc, count = ctypes.CDLL(None), 20_000

    def program(communicator):
        memory, ones = np.frombuffer(mmap.mmap(-1, 8 * count), "f8"), np.ones(count)
        place, length = ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(8 * count)
        assert libc.mprotect(place, length, mmap.PROT_READ) == 0
        with pytest.raises(errors.LocalProtectionError):
            communicator.allreduce(ones, out=memory)
        assert not memory.any()
        assert not communicator.allreduce(memory).any()
        assert libc.mprotect(place, length, mmap.PROT_READ | mmap.PROT_WRITE) == 0
        return np.array_equal(communicator.allreduce(ones, out=memory), ones)

    assert run_ranks(device, 1, program) == [True]


def test_registered_memory_that_comes_and_goes(run_ranks, device):
    """Freed registered memory's addresses become ordinary memory, and vice versa."""

    def program(communicator):
        for turn in range(40):
            memory = make(communicator, KINDS[turn % 2], 5000)
            memory[:] = data(communicator.rank, 5000, turn)
            assert np.array_equal(communicator.allreduce(memory, out=memory), total(5000, turn))
            del memory
        return True

    assert all(run_ranks(device, 2, program))


def test_two_threads_on_one_communicator_each(device, run_ranks):
    """Two threads' calls mix in any order; all bring the same, so each must get the same."""
    from concurrent.futures import ThreadPoolExecutor

    def program(communicator):
        def calls(_):
            return [float(communicator.allreduce(np.full(2000, 1.5))[-1]) for _ in range(60)]

        with ThreadPoolExecutor(2) as pool:
            return [value for values in pool.map(calls, range(2)) for value in values]

    assert run_ranks(device, 2, program) == [[3.0] * 120] * 2
