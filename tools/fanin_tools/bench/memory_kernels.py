"""Compiled loops of the measurements: not one instruction of Python between two looks at the clock."""

from __future__ import annotations

import numpy as np

from fanin_nic.native.compiled import compiled


@compiled
def read_words(words, repeat):
    """Read all words of an array `repeat` times. What is returned depends on each, so that none can be left out."""
    total = np.uint64(0)
    for _ in range(repeat):
        for index in range(words.size):
            total ^= words[index]
    return total
