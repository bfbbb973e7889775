"""The compiled part of the floor of one node: a lane reduces the data of the ranks into their results."""

from __future__ import annotations

from numba import int64, uint64

from fanin_nic.engine.requests import local_reduce
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import call_kernel, copy, full_fence
from fanin_nic.native.streaming import spread
from fanin_tools.bench.floor_kernels import await_word, tell

BLOCK, BLOCK_OF_MEMORY = int(local_reduce.BLOCK), int(local_reduce.BLOCK_OF_MEMORY)
WORD = uint64(8)


@compiled
def run_lane(
    begun,
    done,
    sleeping_flag,
    rank_sleeps,
    event,
    rank_events,
    yields,
    rounds,
    sources,
    results,
    first,
    end,
    kernel,
    past_caches,
):
    """In each round wait for all ranks, then write the sum of the bytes `first` to `end` of their data to each result.

    begun, done, rank_sleeps, rank_events: of each rank; sources, results: addresses of each rank's memory; kernel:
    address of a C function that adds; past_caches: whether results bypass the caches. Returns False after a timeout.
    """
    for number in range(1, rounds + 1):
        for rank in range(begun.size):
            if not await_word(begun[rank], number, sleeping_flag, event, yields):
                return False
        reduce(sources, results, first, end, kernel, past_caches)
        for rank in range(done.size):
            tell(done[rank], number, rank_sleeps[rank], rank_events[rank])
    return True


@compiled
def reduce(sources, results, first, end, kernel, past_caches):
    """Reduce block by block, from byte `first` to byte `end`."""
    block, size = stack_bytes(BLOCK), uint64(BLOCK_OF_MEMORY if past_caches else BLOCK)
    place = uint64(first)
    while place < uint64(end):
        length = min(size, uint64(end) - place)
        copy(block, sources[0] + place, length)
        for rank in range(1, sources.size):
            call_kernel(kernel, block, sources[rank] + place, int64(length) // 4)
        spread(uint64(results.ctypes.data), WORD, results.size, place, block, length, past_caches)
        place += length
    if past_caches:
        full_fence()
