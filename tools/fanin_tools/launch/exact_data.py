"""Data with an exact reduction: every order and every grouping of the ranks gives the same bits.

Sums are of whole numbers small enough to be exact in the type. Products are of signs and a few factors of 2. The other
operations are exact for all values. Data that are only moved are random bytes. The values repeat after PERIOD elements,
a prime: no two segments begin with the same values, so a segment in a wrong place is found. numpy computes one period
only.
"""

import functools
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fanin_wire import arithmetic
from fanin_wire.datatypes import DATATYPES, DataType, Family, datatype_by_name
from fanin_wire.operations import OPERATIONS, Exact, operation_by_name

PERIOD = 65521
MAX_VALUE = 1000  # the sum over 4096 ranks stays below 2**24, the limit of exact whole numbers in f32
RANKS_WITH_FACTOR_2 = 6  # ranks that may contribute a factor of 2
SPECIAL_SHARE = 0.02  # share of zeros of both signs, infinities and NaN
SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan)
DTYPES = tuple(entry.name for entry in DATATYPES)
OPS = tuple(entry.name.lower() for entry in OPERATIONS)
TRUE_SHARES: dict[Exact, Callable[[float], float]] = {  # of the values, by the share of one rank
    Exact.TRUE: lambda few: 1 - few,
    Exact.FALSE: lambda few: few,
    Exact.TRUTHS: lambda few: 0.5,
}
MOVED = ""  # instead of an operation: the data are moved, not reduced


class ExactData(NamedTuple):
    """The data of a job's ranks. seed: of the random numbers; size: number of ranks; op: one of OPS, or MOVED."""

    seed: int
    size: int
    dtype: str
    op: str

    def contribution(self, rank: int, count: int = PERIOD) -> np.ndarray:
        """The first `count` elements of the period of `rank`: shape (count,), in numpy's storage type."""
        random = np.random.default_rng([self.seed, rank, zlib.crc32(f"{self.dtype} {self.op}".encode())])
        datatype = datatype_by_name(self.dtype)
        if self.op == MOVED:
            return np.frombuffer(random.bytes(count * datatype.itemsize), datatype.numpy)
        return _VALUES[datatype.family](random, datatype, self, rank, count)

    def reduced(self, count: int = PERIOD) -> np.ndarray:
        """The first `count` elements of the period of the reduction over all ranks: shape (count,)."""
        rows = np.empty((self.size, count), datatype_by_name(self.dtype).numpy)
        for rank, row in enumerate(rows):
            bits(row)[...] = bits(self.contribution(rank, count))
        return operation_by_name(self.op).oracle(rows, datatype_by_name(self.dtype))

    @property
    def largest(self) -> int:
        """The largest number that each rank may contribute to an exact sum."""
        return max(1, min(MAX_VALUE, _exact_up_to(datatype_by_name(self.dtype)) // self.size))

    @property
    def exact(self) -> Exact:
        """The values with exact results."""
        return operation_by_name(self.op).exact


@functools.cache
def _exact_up_to(datatype: DataType) -> int:
    """The number up to which all whole ones are exact in a type; of f32 and larger types, that of f32."""
    if datatype.family is not Family.SMALL_FLOAT:
        return 1 << 24
    numbers = np.arange(1 << 13, dtype=np.float32)
    exact = arithmetic.widen(arithmetic.narrow(numbers, datatype), datatype) == numbers
    return int(np.argmin(exact)) - 1


def _integers(random: np.random.Generator, datatype: DataType, data: ExactData, rank: int, count: int) -> np.ndarray:
    limits = np.iinfo(datatype.numpy)
    values = random.integers(limits.min, limits.max, count, datatype.numpy, endpoint=True)
    if data.exact is Exact.FACTORS:
        return values | 1  # a product of even factors is soon 0
    if data.exact in TRUE_SHARES:
        return np.where(_booleans(random, datatype, data, rank, count), values | 1, 0).astype(datatype.numpy)
    if data.exact in (Exact.ONES, Exact.ZEROS):
        further = random.integers(limits.min, limits.max, (2, count), datatype.numpy, endpoint=True)
        rare = values & further[0] & further[1]
        return rare if data.exact is Exact.ZEROS else ~rare
    return values


def _floats(random: np.random.Generator, datatype: DataType, data: ExactData, rank: int, count: int) -> np.ndarray:
    if data.exact is Exact.ANY:
        special = random.choice(SPECIALS, count)
        values = np.where(random.random(count) < SPECIAL_SHARE, special, random.standard_normal(count))
    elif data.exact is Exact.FACTORS:
        factors = random.integers(1, 2 if rank < RANKS_WITH_FACTOR_2 else 1, count, endpoint=True)
        values = factors * random.choice((-1.0, 1.0), count)
    else:
        values = random.integers(-data.largest, data.largest, count, endpoint=True).astype(np.float64)
    return _stored(values, datatype)


def _stored(values: np.ndarray, datatype: DataType) -> np.ndarray:
    if datatype.family is Family.SMALL_FLOAT:
        return arithmetic.narrow(values.astype(np.float32), datatype)
    return values.astype(datatype.numpy)


def _booleans(random: np.random.Generator, datatype: DataType, data: ExactData, rank: int, count: int) -> np.ndarray:
    """With so many true ones that some results depend on a single rank."""
    return random.random(count) < TRUE_SHARES[data.exact](1 / max(2, data.size))


def _complexes(random: np.random.Generator, datatype: DataType, data: ExactData, rank: int, count: int) -> np.ndarray:
    parts = random.integers(-data.largest, data.largest, (count, 2), endpoint=True)
    return (parts[:, 0] + 1j * parts[:, 1]).astype(datatype.numpy)


def _pairs(random: np.random.Generator, datatype: DataType, data: ExactData, rank: int, count: int) -> np.ndarray:
    """With few different values and indices, so that both have ties."""
    pairs = np.zeros(count, datatype.numpy)
    pairs["value"] = random.integers(-3, 3, count, endpoint=True)
    pairs["index"] = random.integers(0, data.size, count)
    if pairs["value"].dtype.kind == "f":
        chosen = random.random(count) < SPECIAL_SHARE
        pairs["value"][chosen] = random.choice(SPECIALS, count)[chosen]
    return pairs


_VALUES: dict[Family, Callable[[np.random.Generator, DataType, ExactData, int, int], np.ndarray]] = {
    Family.INTEGER: _integers,
    Family.FLOAT: _floats,
    Family.SMALL_FLOAT: _floats,
    Family.BOOL: _booleans,
    Family.COMPLEX: _complexes,
    Family.PAIR: _pairs,
}


def rounding_values(seed: int, rank: int, dtype: str, elements: int) -> np.ndarray:
    """Floats with rounded sums: the bits of a sum depend on the order of additions."""
    datatype = datatype_by_name(dtype)
    return _stored(np.random.default_rng([seed, rank]).standard_normal(elements), datatype)


def bits(array: np.ndarray) -> np.ndarray:
    """The elements of a flat array as unsigned integers, padding included; elements of 16 bytes as rows of two."""
    if array.dtype.itemsize == 16:
        return array.view(np.uint64).reshape(-1, 2)
    return array.view(f"u{array.dtype.itemsize}")


def fill(array: np.ndarray, period: np.ndarray, start: int = 0) -> None:
    """With repetitions of `period`. start: the place of the period to begin at."""
    have = bits(array)
    for place, piece in _pieces(array.size, period, start):
        have[place : place + len(piece)] = piece


def wrong_elements(array: np.ndarray, period: np.ndarray, start: int = 0) -> int:
    """Elements of the flat `array` with a bit that differs from the repetitions of `period`."""
    have, wrong = bits(array), 0
    for place, piece in _pieces(array.size, period, start):
        differs = have[place : place + len(piece)] != piece
        wrong += int(np.count_nonzero(differs.any(axis=1) if differs.ndim == 2 else differs))
    return wrong


def _pieces(count: int, period: np.ndarray, start: int) -> list[tuple[int, np.ndarray]]:
    """Places in an array of `count` elements, and the bits that belong there."""
    whole, pieces, place = bits(period), [], 0
    while place < count:
        first = (start + place) % len(whole)
        piece = whole[first : first + count - place]
        pieces.append((place, piece))
        place += len(piece)
    return pieces
