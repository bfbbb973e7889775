"""Compiled loops of the measurements: not one instruction of Python between two looks at the clock."""

from __future__ import annotations

import numpy as np

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import call_kernel


@compiled
def read_words(words, repeat):
    """Read all words of an array `repeat` times. What is returned depends on each, so that none can be left out."""
    total = np.uint64(0)
    for _ in range(repeat):
        for index in range(words.size):
            total ^= words[index]
    return total


@compiled
def write_bytes(memset, place, length, repeat):
    """Set `length` bytes at address `place` to 1, `repeat` times. memset: address of the C library's, which writes past
    the caches where there is more than they hold; of what is called by its address, no call can be left out."""
    for _ in range(repeat):
        call_kernel(memset, place, np.uint64(1), np.int64(length))
