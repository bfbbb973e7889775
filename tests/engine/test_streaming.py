"""Copies that bypass the caches."""

import numpy as np
import pytest

from fanin_nic.native.streaming import LINE, spread, stream

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


@pytest.mark.parametrize("past_caches", [False, True])
@pytest.mark.parametrize("count", range(10))
def test_a_copy_for_everybody(count: int, past_caches: bool) -> None:
    """One of the places, or all, do not start a line."""
    source, offset = np.random.default_rng(1).integers(0, 256, MOST, "u1"), 2 * LINE
    for length in (0, 1, LINE, 3 * LINE + 17):
        for start in (0, 4):
            targets = np.zeros((count, 8 * LINE), "u1")
            first = np.array([(-row.ctypes.data) % LINE for row in targets], np.int64)
            first[:1] += start
            places = np.zeros((count, 2), np.uint64)
            places[:, 0] = [row.ctypes.data + at for row, at in zip(targets, first, strict=True)]
            stride = np.uint64(places.strides[0])
            spread(np.uint64(places.ctypes.data), stride, count, np.uint64(offset), np.uint64(source.ctypes.data),
                   np.uint64(length), past_caches)  # fmt: skip
            for row, at in zip(targets, first + offset, strict=True):
                assert np.array_equal(row[at : at + length], source[:length])
                assert not row[:at].any()
                assert not row[at + length :].any()
