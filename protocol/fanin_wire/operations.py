"""Operations of a reduction: one table, each with the numpy oracle that every implementation must equal bit for bit.

An oracle takes the contributions in the order in which they are folded, as an array of shape (contributors, elements)
of a type of `datatypes`, and returns the result of shape (elements,). The rules are those of SPEC.md, Arithmetic:

- a single contribution is returned unchanged, bit for bit;
- SUM is a left fold that starts with a copy of the first contribution (never 0 + x, which loses -0); integers wrap;
- MIN and MAX order -0 below +0; if any input is NaN, the result is NaN;
- MEAN is the SUM, divided once by the number of contributions; integers divide toward zero;
- every NaN that arithmetic gives is the canonical one: positive, quiet, no payload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fanin_wire.abi import Op

Oracle = Callable[[np.ndarray], np.ndarray]


class UnsupportedOperation(ValueError):
    """An operation that no device can compute; the message lists those it can."""

    def __init__(self, asked: object) -> None:
        names = ", ".join(entry.name for entry in OPERATIONS)
        super().__init__(f"operation {asked} is not supported; supported: {names}")


class Operation(NamedTuple):
    """An operation: its code in CETH and WQE, its name, and its oracle."""

    code: int
    name: str
    oracle: Oracle


def _canonical(values: np.ndarray) -> np.ndarray:
    """The same values with the canonical NaN (numpy's `nan`: 0x7fc00000, 0x7ff8000000000000) for every NaN."""
    if values.dtype.kind == "f":
        values[np.isnan(values)] = np.nan
    return values


def _fold(step: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Oracle:
    """Oracle that computes `accumulator step contribution` in order."""

    def oracle(contributions: np.ndarray) -> np.ndarray:
        accumulator = contributions[0].copy()
        with np.errstate(all="ignore"):
            for contribution in contributions[1:]:
                accumulator = _canonical(step(accumulator, contribution))
        return accumulator

    return oracle


def _minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise minimum with -0 < +0 (numpy leaves the sign of an equal zero open)."""
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    return np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b))


def _maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise maximum with -0 < +0."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    return np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b))


def _divide(total: np.ndarray, count: int) -> np.ndarray:
    """`total / count`: one rounding for floats, toward zero for integers."""
    if total.dtype.kind == "f":
        return _canonical(total / total.dtype.type(count))
    quotient = total // count  # rounds down
    return quotient + ((total < 0) & (quotient * count != total)).astype(total.dtype)


_sum = _fold(np.add)


def _mean(contributions: np.ndarray) -> np.ndarray:
    total = _sum(contributions)
    return _divide(total, len(contributions)) if len(contributions) > 1 else total


OPERATIONS = (
    Operation(Op["SUM"], "SUM", _sum),
    Operation(Op["MIN"], "MIN", _fold(_minimum)),
    Operation(Op["MAX"], "MAX", _fold(_maximum)),
    Operation(Op["MEAN"], "MEAN", _mean),
)

_BY_CODE = {entry.code: entry for entry in OPERATIONS}
_BY_NAME = {entry.name: entry for entry in OPERATIONS}


def operation_by_code(code: int) -> Operation:
    """The operation with a wire code; UnsupportedOperation if there is none."""
    if entry := _BY_CODE.get(int(code)):
        return entry
    raise UnsupportedOperation(f"with code {int(code)}")


def operation_by_name(name: str) -> Operation:
    """The operation called `name` ("SUM"; upper or lower case); UnsupportedOperation if there is none."""
    if entry := _BY_NAME.get(name.upper()):
        return entry
    raise UnsupportedOperation(repr(name))
