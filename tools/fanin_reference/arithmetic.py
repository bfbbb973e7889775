"""The result of a position (section 12): a left fold over the data of the children, element by element."""

import math
import struct
from collections.abc import Callable, Iterable
from typing import Any

from fanin_reference import spec

Fold = Callable[[Any, Any], Any]
LETTERS = {"f32": "f", "f64": "d", "f16": "e", "bf16": "H", "bool": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q"}
LETTERS |= {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "c64": "f", "c128": "d"}
PAIRS = {"f32_i32": "fi", "f64_i32": "di4x", "i16_i32": "h2xi", "i32_i32": "ii", "i64_i32": "qi4x"}
WIDENING = ("SUM", "PROD", "MEAN")  # of small floats: in f32 ([12-18])


def rounded(letter: str, number: float) -> float:
    """A number as a smaller float, rounded to nearest even; too large ones become infinite."""
    try:
        return struct.unpack("<" + letter, struct.pack("<" + letter, number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def to_f32(number: float) -> float:
    """Right for sums, products and quotients of two f32 that were rounded to f64 first: 53 >= 2 * 24 + 2."""
    return rounded("f", number)


def bf16_bits(number: float) -> int:
    """An f32 number as the bits of a bf16, rounded to nearest even."""
    if math.isnan(number):
        return 0x7FC0
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


def bf16_number(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


AS_BITS = {"bf16": (bf16_number, bf16_bits)}  # types that struct lacks: from their bits, and to them


def decode(name: str, data: bytes) -> list[Any]:
    """The elements of little-endian data: numbers, or pairs of value and index."""
    if name in PAIRS:
        return list(struct.iter_unpack("<" + PAIRS[name], data))
    numbers = [number for (number,) in struct.iter_unpack("<" + LETTERS[name], data)]
    return [AS_BITS[name][0](bits) for bits in numbers] if name in AS_BITS else numbers


def encode(name: str, values: Iterable[Any]) -> bytes:
    """The data of elements. NaNs become the canonical one, too large numbers infinite."""
    if name in PAIRS:
        return b"".join(struct.pack("<" + PAIRS[name], canonical(value), index) for value, index in values)
    letter = LETTERS[name]
    if name in AS_BITS:
        values = map(AS_BITS[name][1], values)
    elif letter in "fde":
        values = [canonical(rounded(letter, value)) for value in values]
    return b"".join(struct.pack("<" + letter, value) for value in values)


def canonical(number: Any) -> Any:
    """A NaN without sign and payload ([12-15]); other numbers unchanged."""
    return math.nan if number != number else number


def extreme(sign: int) -> Fold:
    """MIN (1) or MAX (-1) of floats ([12-16])."""

    def fold(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return math.nan
        if a == b:
            return min(a, b, key=lambda zero: sign * math.copysign(1, zero))
        return min(a, b) if sign > 0 else max(a, b)

    return fold


def located(sign: int) -> Fold:
    """MINLOC (1) or MAXLOC (-1) of pairs ([12-30], [12-31])."""

    def order(pair: tuple[Any, int]) -> tuple:
        value, index = pair
        if value != value:
            return (0, 0, index, 0)
        return (1, sign * value, index, sign * math.copysign(1, value))

    return lambda a, b: a if order(a) <= order(b) else b


def wrapping(size: int, signed: bool, compute: Fold) -> Fold:
    """Two's complement ([12-12], [12-13])."""
    modulus = 1 << 8 * size

    def fold(a: int, b: int) -> int:
        number = compute(a, b) % modulus
        return number - modulus if signed and number >= modulus // 2 else number

    return fold


EXACT: dict[str, Fold] = {
    "SUM": lambda a, b: a + b,
    "MEAN": lambda a, b: a + b,
    "PROD": lambda a, b: a * b,
    "LAND": lambda a, b: int(a != 0 and b != 0),
    "LOR": lambda a, b: int(a != 0 or b != 0),
    "LXOR": lambda a, b: int((a == 0) != (b == 0)),
    "BAND": lambda a, b: a & b,
    "BOR": lambda a, b: a | b,
    "BXOR": lambda a, b: a ^ b,
}


def step(op: str, name: str, size: int, family: str) -> Fold:
    """An operation on two elements."""
    if op in ("MINLOC", "MAXLOC"):
        return located(1 if op == "MINLOC" else -1)
    if op in ("MIN", "MAX"):
        if family == "integer":
            return min if op == "MIN" else max
        return extreme(1 if op == "MIN" else -1)
    if family == "integer":
        return wrapping(size, name.startswith("i"), EXACT[op])
    if op in WIDENING and (name in ("f32", "c64") or family == "small float"):
        return lambda a, b: to_f32(EXACT[op](a, b))
    return EXACT[op]


def divided(value: Any, ranks: int, name: str, family: str) -> Any:
    """The mean ([12-25])."""
    if family == "integer":
        return abs(value) // ranks * (1 if value >= 0 else -1)
    return value / ranks if name == "f64" else to_f32(value / to_f32(ranks))


def is_computed(op: int, dtype: int) -> bool:
    """Whether the table of operations has this one for this type."""
    known = op in spec.OPERATIONS and dtype in spec.TYPES
    return known and bool(op) and spec.TYPES[dtype][2] in spec.OPERATIONS[op][1]


def value(op_code: int, dtype: int, data: list[bytes], ranks: int, wide: bool) -> bytes:
    """The data of a result that this device completes.

    Args:
        data: of the children, in the order of the fold.
        ranks: that they come from.
        wide: the data are f32 in place of a small float.
    """
    (op, _), (name, size, family) = spec.OPERATIONS[op_code], spec.TYPES[dtype]
    means = op == "MEAN" and ranks > 1
    if len(data) == 1 and not means and not wide:
        return data[0]
    fold = step(op, name, size, family)
    total, *others = [decode("f32" if wide else name, each) for each in data]
    for other in others:
        total = [fold(a, b) for a, b in zip(total, other, strict=False)]
    return encode(name, [divided(each, ranks, name, family) for each in total] if means else total)
