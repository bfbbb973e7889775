"""Operations of a reduction: one table with names, arithmetic and element types.

All but the arithmetic of devices follows from a row (CONTRIBUTING.md, *Adding an operation of a reduction*).

`Operation.oracle` is the numpy form that every implementation must equal bit for bit. It takes contributions in the
order of folding, an array of shape (contributors, elements), and returns the result, of shape (elements,) and the same
dtype. Results of several devices are composed of its two steps: `partial`, what a device sends up, and `finish`, what
the completing device does at the end.
"""

from __future__ import annotations

import difflib
import enum
from typing import NamedTuple

import numpy as np

from fanin_wire import arithmetic
from fanin_wire.datatypes import DATATYPES, DataType, Family, datatype_by_code, datatype_of

# Names in torch, NCCL, numpy
OTHER_NAMES = {"AVG": "MEAN", "AVERAGE": "MEAN", "ADD": "SUM", "PRODUCT": "PROD", "MULTIPLY": "PROD", "MUL": "PROD"}
OTHER_NAMES |= {"MINIMUM": "MIN", "MAXIMUM": "MAX", "ARGMIN": "MINLOC", "ARGMAX": "MAXLOC"}
OTHER_NAMES |= {"AND": "LAND", "OR": "LOR", "XOR": "LXOR"}


class UnsupportedOperation(ValueError):
    """No device computes this operation, or not with this type; the message lists what is supported."""

    def __init__(self, asked: object, supported: str = "", meant: str = "") -> None:
        names = supported or ", ".join(entry.name for entry in OPERATIONS)
        hint = f" ({meant}?)" if meant else ""
        super().__init__(f"operation {asked} is not supported{hint}; supported: {names}")


class Exact(enum.Enum):
    """Data whose reduction has the same bits in every order, and shows a missing rank."""

    NUMBERS = "integers of all values; floats that are small whole numbers"
    ANY = "any value"
    FACTORS = "odd integers; signs and a few factors of 2"
    TRUTHS = "as many true as false"
    TRUE = "mostly true"
    FALSE = "mostly false"
    ONES = "mostly bits that are 1"
    ZEROS = "mostly bits that are 0"


class Operation(NamedTuple):
    """An operation.

    code, name: in CETH, WQE and SPEC.md. families: of the types that it takes. step: (accumulated values, next
    contribution), arrays of one dtype, to accumulated values. meaning: the same in words, of a and b. rounds: results
    have more digits than the type, so that small floats are computed in f32. exact: data for tests. nccl, sharp, torch:
    the ends of the names NCCL_..., SHARP_OP_... and ReduceOp....; "" if that library lacks it.
    """

    code: int
    name: str
    families: tuple[Family, ...]
    step: arithmetic.Step
    meaning: str
    rounds: bool = False
    exact: Exact = Exact.NUMBERS
    nccl: str = ""
    sharp: str = ""
    torch: str = ""

    def takes(self, datatype: DataType) -> bool:
        return datatype.family in self.families

    def widening(self, datatype: DataType) -> int:
        """How many times wider than an element an unrounded partial is."""
        return datatype.widening if self.rounds else 1

    def widens(self, datatype: DataType) -> bool:
        """Whether a device computes a smaller type in f32: the sums of small floats."""
        return self.widening(datatype) > 1

    def oracle(self, contributions: np.ndarray, datatype: DataType | None = None) -> np.ndarray:
        """The result of one device over `contributions`, one from each rank. `datatype`: needed for bf16, whose dtype
        is uint16. Raises UnsupportedOperation."""
        datatype = datatype or datatype_of(contributions.dtype)
        total = self.partial(contributions, datatype, wide=self.widens(datatype) and len(contributions) > 1)
        return self.finish(total, len(contributions), datatype).view(contributions.dtype)

    def partial(self, contributions: np.ndarray, datatype: DataType | None = None, *, wide: bool = False) -> np.ndarray:
        """What a device that does not complete the segment sends up, rounded to the type.

        With `wide` (where the operation widens f16 and bf16) it is unrounded f32, which the next device takes as
        `contributions` of type f32. Raises UnsupportedOperation.
        """
        datatype = datatype or datatype_of(contributions.dtype)
        check_supported(self, datatype)
        stored = arithmetic.as_stored(contributions, datatype)
        if not self.widens(datatype):
            return arithmetic.fold(self.step, stored, datatype).view(contributions.dtype)
        if len(stored) == 1 and not wide:
            return arithmetic.copied(contributions[0])
        total = arithmetic.fold(self.step, arithmetic.widen(stored, datatype), datatype)
        return total if wide else arithmetic.narrow(total, datatype).view(contributions.dtype)

    def finish(self, total: np.ndarray, ranks: int, datatype: DataType | None = None) -> np.ndarray:
        """The result, in the type's storage, of the partial `total` over `ranks` ranks. MEAN of more than one rank is
        divided; f32 of an f16 or bf16 is rounded, once."""
        datatype = datatype or datatype_of(total.dtype)
        small, divided = self.widens(datatype), self.name == "MEAN" and ranks > 1
        if small and divided and total.dtype != np.float32:
            total = arithmetic.widen(arithmetic.as_stored(total, datatype), datatype)
        if divided:
            total = arithmetic.divide(total, ranks)
        return arithmetic.narrow(total, datatype) if small and total.dtype == np.float32 else total


_NUMBERS = (Family.INTEGER, Family.FLOAT, Family.SMALL_FLOAT)
_SUMS = (*_NUMBERS, Family.COMPLEX)
_TRUTHS = (Family.INTEGER, Family.BOOL)
_BITS, _PAIRS = (Family.INTEGER,), (Family.PAIR,)
_AND, _OR, _XOR = (arithmetic.logical(each) for each in (np.logical_and, np.logical_or, np.logical_xor))
_MIN, _MAX = arithmetic.minimum, arithmetic.maximum
_FIRST, _LAST = arithmetic.located(_MIN, np.less), arithmetic.located(_MAX, np.greater)

OPERATIONS = (
    Operation(1, "SUM", _SUMS, np.add, "a + b", rounds=True, nccl="SUM", sharp="SUM", torch="SUM"),
    Operation(2, "MIN", _NUMBERS, _MIN, "the smaller", exact=Exact.ANY, nccl="MIN", sharp="MIN", torch="MIN"),
    Operation(3, "MAX", _NUMBERS, _MAX, "the larger", exact=Exact.ANY, nccl="MAX", sharp="MAX", torch="MAX"),
    Operation(
        4,
        "MEAN",
        _NUMBERS,
        np.add,
        "a + b; at the end divided by the number of ranks",
        rounds=True,
        nccl="AVG",
        torch="AVG",
    ),
    Operation(
        5, "PROD", _NUMBERS, np.multiply, "a * b", rounds=True, exact=Exact.FACTORS, nccl="PROD", torch="PRODUCT"
    ),
    Operation(6, "LAND", _TRUTHS, _AND, "1 if a and b are not 0, else 0", exact=Exact.TRUE, sharp="LAND"),
    Operation(7, "LOR", _TRUTHS, _OR, "1 if a or b is not 0, else 0", exact=Exact.FALSE, sharp="LOR"),
    Operation(
        8,
        "LXOR",
        _TRUTHS,
        _XOR,
        "1 if one of a and b is 0 and the other is not, else 0",
        exact=Exact.TRUTHS,
        sharp="LXOR",
    ),
    Operation(9, "BAND", _BITS, np.bitwise_and, "each bit: and", exact=Exact.ONES, sharp="BAND", torch="BAND"),
    Operation(10, "BOR", _BITS, np.bitwise_or, "each bit: or", exact=Exact.ZEROS, sharp="BOR", torch="BOR"),
    Operation(11, "BXOR", _BITS, np.bitwise_xor, "each bit: exclusive or", sharp="BXOR", torch="BXOR"),
    Operation(12, "MINLOC", _PAIRS, _FIRST, "the pair with the smaller value; of equal ones that with the lower index"),
    Operation(13, "MAXLOC", _PAIRS, _LAST, "the pair with the larger value; of equal ones that with the lower index"),
)

_BY_CODE = {entry.code: entry for entry in OPERATIONS}
_BY_NAME = {entry.name: entry for entry in OPERATIONS}


def operation_by_code(code: int) -> Operation:
    """The operation with a wire code; UnsupportedOperation if unknown."""
    if entry := _BY_CODE.get(int(code)):
        return entry
    raise UnsupportedOperation(f"with code {int(code)}")


def operation_by_name(name: str) -> Operation:
    """The operation called `name` ("SUM", in any case); UnsupportedOperation if unknown."""
    if entry := _BY_NAME.get(name.upper()):
        return entry
    raise UnsupportedOperation(repr(name), meant=_meant(name.upper()))


def _meant(name: str) -> str:
    """The operation that an unknown name probably means; "" if unclear."""
    close = difflib.get_close_matches(name, _BY_NAME, 1)
    return OTHER_NAMES.get(name, close[0] if close else "").lower()


def supports(op: int, dtype: int) -> bool:
    """Whether a device computes `op` on `dtype`, by their wire codes; False for unknown codes."""
    codes = {entry.code for entry in DATATYPES}
    return op in _BY_CODE and dtype in codes and _BY_CODE[op].takes(datatype_by_code(dtype))


def check_supported(operation: Operation, datatype: DataType) -> None:
    """Raise UnsupportedOperation, with what to use instead, unless `operation` takes `datatype`."""
    if operation.takes(datatype):
        return
    operations = ", ".join(entry.name for entry in OPERATIONS if entry.takes(datatype))
    types = ", ".join(entry.name for entry in DATATYPES if operation.takes(entry))
    raise UnsupportedOperation(
        f"{operation.name} of {datatype.name}", f"{datatype.name} has {operations}; {operation.name} takes {types}"
    )
