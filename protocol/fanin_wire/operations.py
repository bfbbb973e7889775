"""Operations of a reduction: one table, which says what each is called and which types it takes.

`Operation.oracle` is the numpy form that every implementation must equal bit for bit. It takes the contributions in the
order in which they are folded, as an array of shape (contributors, elements) of a type of `datatypes`, and returns the
result, of shape (elements,) and the same dtype. What several devices make of them is composed of the two steps of which
the oracle consists: `partial`, what a device sends up, and `finish`, what the completing device does at the end.
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

import numpy as np

from fanin_wire import arithmetic
from fanin_wire.abi import Op
from fanin_wire.datatypes import DATATYPES, DataType, Family, datatype_by_code, datatype_of

# What others call an operation: torch, NCCL, numpy.
OTHER_NAMES = {"AVG": "MEAN", "AVERAGE": "MEAN", "ADD": "SUM", "PRODUCT": "PROD", "MULTIPLY": "PROD", "MUL": "PROD"}
OTHER_NAMES |= {"MINIMUM": "MIN", "MAXIMUM": "MAX", "ARGMIN": "MINLOC", "ARGMAX": "MAXLOC"}
OTHER_NAMES |= {"AND": "LAND", "OR": "LOR", "XOR": "LXOR"}


class UnsupportedOperation(ValueError):
    """An operation that no device can compute, or not with this type; the message lists those it can."""

    def __init__(self, asked: object, supported: str = "", meant: str = "") -> None:
        names = supported or ", ".join(entry.name for entry in OPERATIONS)
        hint = f" ({meant}?)" if meant else ""
        super().__init__(f"operation {asked} is not supported{hint}; supported: {names}")


class Operation(NamedTuple):
    """An operation: its code in CETH and WQE, its name, the families of types that it takes."""

    code: int
    name: str
    families: tuple[Family, ...]

    def takes(self, datatype: DataType) -> bool:
        """Whether the operation makes sense for a type."""
        return datatype.family in self.families

    def widens(self, datatype: DataType) -> bool:
        """Whether a device computes in f32 what comes and goes in a smaller type: the sums of f16 and bf16."""
        return datatype.family == Family.SMALL_FLOAT and self.name in ("SUM", "PROD", "MEAN")

    def oracle(self, contributions: np.ndarray, datatype: DataType | None = None) -> np.ndarray:
        """The result of one device that gets `contributions`, one from each rank.

        `datatype` tells what the dtype does not: that uint16 are bf16. Raises UnsupportedOperation.
        """
        datatype = datatype or datatype_of(contributions.dtype)
        total = self.partial(contributions, datatype, wide=self.widens(datatype) and len(contributions) > 1)
        return self.finish(total, len(contributions), datatype).view(contributions.dtype)

    def partial(self, contributions: np.ndarray, datatype: DataType | None = None, *, wide: bool = False) -> np.ndarray:
        """What a device that does not complete the segment sends up.

        With `wide` (f16 and bf16, where the operation widens) that is f32: what was computed, not rounded. Without, it
        is rounded to the type. Wide partials are `contributions` of type f32 to the next device. Raises
        UnsupportedOperation.
        """
        datatype = datatype or datatype_of(contributions.dtype)
        check_supported(self, datatype)
        stored = arithmetic.as_stored(contributions, datatype)
        if not self.widens(datatype):
            return arithmetic.fold(self.name, stored, datatype).view(contributions.dtype)
        if len(stored) == 1 and not wide:
            return arithmetic.copied(contributions[0])
        total = arithmetic.fold(self.name, arithmetic.widen(stored, datatype), datatype)
        return total if wide else arithmetic.narrow(total, datatype).view(contributions.dtype)

    def finish(self, total: np.ndarray, ranks: int, datatype: DataType | None = None) -> np.ndarray:
        """The result, in the storage of the type, of the partial `total` over the data of `ranks` ranks.

        MEAN is divided, if there was more than one rank; what is f32 of an f16 or bf16 is rounded, once.
        """
        datatype = datatype or datatype_of(total.dtype)
        small, divided = self.widens(datatype), self.name == "MEAN" and ranks > 1
        if small and divided and total.dtype != np.float32:
            total = arithmetic.widen(arithmetic.as_stored(total, datatype), datatype)
        if divided:
            total = arithmetic.divide(total, ranks)
        return arithmetic.narrow(total, datatype) if small and total.dtype == np.float32 else total


_NUMBERS = (Family.INTEGER, Family.FLOAT, Family.SMALL_FLOAT)

OPERATIONS = (
    Operation(Op["SUM"], "SUM", (*_NUMBERS, Family.COMPLEX)),
    Operation(Op["MIN"], "MIN", _NUMBERS),
    Operation(Op["MAX"], "MAX", _NUMBERS),
    Operation(Op["MEAN"], "MEAN", _NUMBERS),
    Operation(Op["PROD"], "PROD", _NUMBERS),
    Operation(Op["LAND"], "LAND", (Family.INTEGER, Family.BOOL)),
    Operation(Op["LOR"], "LOR", (Family.INTEGER, Family.BOOL)),
    Operation(Op["LXOR"], "LXOR", (Family.INTEGER, Family.BOOL)),
    Operation(Op["BAND"], "BAND", (Family.INTEGER,)),
    Operation(Op["BOR"], "BOR", (Family.INTEGER,)),
    Operation(Op["BXOR"], "BXOR", (Family.INTEGER,)),
    Operation(Op["MINLOC"], "MINLOC", (Family.PAIR,)),
    Operation(Op["MAXLOC"], "MAXLOC", (Family.PAIR,)),
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
    raise UnsupportedOperation(repr(name), meant=_meant(name.upper()))


def _meant(name: str) -> str:
    """The operation that somebody means by a name that is none; "" if nobody knows."""
    close = difflib.get_close_matches(name, _BY_NAME, 1)
    return OTHER_NAMES.get(name, close[0] if close else "").lower()


def supports(op: int, dtype: int) -> bool:
    """Whether a device computes operation `op` on type `dtype`, by their wire codes; False for unknown codes."""
    codes = {entry.code for entry in DATATYPES}
    return op in _BY_CODE and dtype in codes and _BY_CODE[op].takes(datatype_by_code(dtype))


def check_supported(operation: Operation, datatype: DataType) -> None:
    """Raise UnsupportedOperation, which says what to use instead, for a combination that makes no sense."""
    if operation.takes(datatype):
        return
    operations = ", ".join(entry.name for entry in OPERATIONS if entry.takes(datatype))
    types = ", ".join(entry.name for entry in DATATYPES if operation.takes(entry))
    raise UnsupportedOperation(
        f"{operation.name} of {datatype.name}", f"{datatype.name} has {operations}; {operation.name} takes {types}"
    )
