"""Compiled loops, so that no Python code runs between two readings of the clock."""

import numpy as np

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import call_kernel


@compiled
def read_words(words, repeat):
    """Read all words `repeat` times. The result depends on each, so the compiler can leave none out."""
    total = np.uint64(0)
    for _ in range(repeat):
        for index in range(words.size):
            total ^= words[index]
    return total


@compiled
def write_bytes(memset, place, length, repeat):
    """Set `length` bytes at address `place` to 1, `repeat` times.

    memset: address of the C library's function, which bypasses the caches for long memory. The compiler can leave out
    no call by an address.
    """
    for _ in range(repeat):
        call_kernel(memset, place, np.uint64(1), np.int64(length))
