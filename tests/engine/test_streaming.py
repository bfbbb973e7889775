"""Copies past the caches."""

from __future__ import annotations

import numpy as np
import pytest

from fanin_nic.native.streaming import LINE, stream

MOST = 5 * LINE


@pytest.mark.parametrize("length", [0, 1, LINE - 1, LINE, LINE + 1, 3 * LINE + 17, 4 * LINE])
def test_exactly_the_bytes_asked_for_are_copied_wherever_they_lie(length: int) -> None:
    source = np.random.default_rng(1).integers(0, 256, MOST + LINE, "u1")
    for start in range(LINE):
        target = np.zeros(MOST + LINE, "u1")
        stream(np.uint64(target.ctypes.data + start), np.uint64(source.ctypes.data + 3), np.uint64(length))
        assert np.array_equal(target[start : start + length], source[3 : 3 + length])
        assert not target[:start].any()
        assert not target[start + length :].any()
