"""What the operations compute, step by step, in numpy: the parts of the oracles of `operations`.

The rules are those of SPEC.md, Arithmetic:

- a single contribution is returned unchanged, bit for bit;
- a fold goes from left to right and starts with a copy of the first contribution (never 0 + x, which loses -0);
- integers wrap; an integer MEAN divides toward zero;
- MIN and MAX order -0 below +0; if any input is NaN, the result is NaN;
- MINLOC and MAXLOC take -0 for +0 and NaN for more extreme than every number; of equal values the lowest index wins;
- every NaN that arithmetic gives is the canonical one: positive, quiet, no payload;
- small floats (f16, bf16) are widened to f32, computed there, and rounded to nearest even.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fanin_wire.datatypes import DataType, Family

Step = Callable[[np.ndarray, np.ndarray], np.ndarray]


def as_stored(values: np.ndarray, datatype: DataType) -> np.ndarray:
    """The same memory in the type's storage dtype: uint16 for bf16, the fields `value` and `index` for pairs."""
    return values.view(datatype.numpy)


def widen(values: np.ndarray, datatype: DataType) -> np.ndarray:
    """Small floats in storage as f32, which holds every value; NaNs become canonical."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return canonical(datatype.decode(values))


def narrow(values: np.ndarray, datatype: DataType) -> np.ndarray:
    """f32 rounded to a small float, to nearest even; NaNs become canonical."""
    with np.errstate(all="ignore"):
        return canonical(datatype.encode(values))


def canonical(values: np.ndarray) -> np.ndarray:
    """The values with numpy's canonical NaN for every NaN: 0x7e00, 0x7fc00000, 0x7ff8000000000000."""
    if values.dtype.kind == "f":
        values[np.isnan(values)] = np.nan
    return values


def copied(row: np.ndarray) -> np.ndarray:
    """A copy of every bit, also of the padding of pairs, which numpy's own copy omits."""
    row = np.ascontiguousarray(row)
    copy = np.empty_like(row)
    copy.view(np.uint8)[:] = row.view(np.uint8)
    return copy


def fold(step: Step, contributions: np.ndarray, datatype: DataType) -> np.ndarray:
    """`accumulator step contribution` over the rows, in order, in the type's storage (f32 if widened)."""
    if len(contributions) == 1:
        return copied(contributions[0])
    if datatype.family == Family.SMALL_FLOAT and contributions.dtype != np.float32:
        return narrow(_folded(step, widen(contributions, datatype)), datatype)
    if datatype.family == Family.COMPLEX:
        parts = contributions.view(contributions.real.dtype)
        return _folded(step, parts).view(contributions.dtype)
    if datatype.family == Family.BOOL:
        return _folded(step, contributions.view(np.uint8)).view(contributions.dtype)
    return _folded(step, contributions)


def _folded(step: Step, contributions: np.ndarray) -> np.ndarray:
    accumulator = contributions[0]
    with np.errstate(all="ignore"):
        for contribution in contributions[1:]:
            accumulator = canonical(step(accumulator, contribution))
    return accumulator


def divide(total: np.ndarray, ranks: int) -> np.ndarray:
    """The division of MEAN: floats are rounded once, by a divisor of their type; integers divide toward zero."""
    if total.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return canonical(total / total.dtype.type(ranks))
    wide = total.astype(np.uint64 if total.dtype.kind == "u" else np.int64)
    by = wide.dtype.type(ranks)
    quotient = wide // by  # rounds down
    return (quotient + ((wide < 0) & (quotient * by != wide))).astype(total.dtype)


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise minimum with -0 < +0 (numpy does not define the sign of an equal zero)."""
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    return np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b))


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise maximum with -0 < +0."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    return np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b))


def logical(step: Step) -> Step:
    """A step on truth values: nonzero is true, the result is 0 or 1."""
    return lambda a, b: step(a != 0, b != 0).astype(a.dtype)


def located(extreme: Step, more_extreme: Step) -> Step:
    """Step on pairs: the more extreme value with its index. Equal values at the same index can differ only as zeros,
    and there `extreme` chooses. The result's padding is zero."""

    def before(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        is_float = a.dtype.kind == "f"
        return (np.isnan(a) & ~np.isnan(b)) | (more_extreme(a, b) & ~np.isnan(b)) if is_float else more_extreme(a, b)

    def step(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        first, second = before(a["value"], b["value"]), before(b["value"], a["value"])
        same = ~first & ~second
        keep = first | (same & (a["index"] < b["index"]))
        value = np.where(keep, a["value"], b["value"])
        equal = same & (a["index"] == b["index"])
        result = np.zeros(a.shape, a.dtype)
        result["value"] = canonical(np.where(equal, extreme(a["value"], b["value"]), value))
        result["index"] = np.where(keep, a["index"], b["index"])
        return result

    return step
