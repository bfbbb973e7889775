"""Small floats in numpy, from their storage to f32, which holds every value, and back: to nearest, ties to even. If the
storage is a numpy float, a NaN may be any; `arithmetic` makes it canonical."""

from __future__ import annotations

import numpy as np

BF16_NAN = 0x7FC0


def f32_of_f16(stored: np.ndarray) -> np.ndarray:
    return stored.astype(np.float32)


def f16_of_f32(values: np.ndarray) -> np.ndarray:
    return values.astype("<f2")


def f32_of_bf16(stored: np.ndarray) -> np.ndarray:
    """The bits of bf16, uint16, are the upper half of a float32."""
    return (stored.astype(np.uint32) << 16).view(np.float32)


def bf16_of_f32(values: np.ndarray) -> np.ndarray:
    """Returns the bits of bf16, uint16."""
    bits = values.view(np.uint32)
    half_unit = 0x7FFF + ((bits >> 16) & 1)  # a tie is rounded up only if that makes the last bit even
    return np.where(np.isnan(values), BF16_NAN, (bits + half_unit) >> 16).astype("<u2")
