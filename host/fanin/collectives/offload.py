"""Which reductions the devices compute. The others are counted, and refused unless the host may compute them."""

import functools
import threading
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from fanin.errors import InvalidRequest, NotSupported
from fanin_wire.abi import DType, Op
from fanin_wire.datatypes import DataType, UnsupportedDataType, datatype_by_name, datatype_of
from fanin_wire.operations import UnsupportedOperation, check_supported, operation_by_name

OpName = str | Callable[[np.ndarray, np.ndarray], Any]


class Reason(StrEnum):
    """Why a reduction is not offloaded."""

    OP_UNKNOWN = "OP_UNKNOWN"  # no operation has this name
    OP_CALLABLE = "OP_CALLABLE"  # a function of the program, which a device can not run
    DTYPE = "DTYPE"  # devices do not compute with elements of this type
    OP_DTYPE = "OP_DTYPE"  # devices do not compute this operation on elements of this type


class Choice(NamedTuple):
    """The codes with which a device computes a reduction; or why none does, as a code and in words."""

    op: int = int(Op.NONE)
    dtype: int = int(DType.NONE)
    reason: Reason | None = None
    detail: str = ""


class Offload:
    """Decides by operation and type only, so that all ranks decide the same. Counts what is not offloaded.

    fallback: the host may compute it.
    """

    def __init__(self, fallback: bool = False) -> None:
        self.fallback = fallback
        self._counts: Counter[Reason] = Counter()
        self._lock = threading.Lock()

    def choose(self, op: OpName, dtype: np.dtype, datatype: str | None = None) -> Choice:
        """Whether devices compute `op` over elements of `dtype`.

        datatype: name of the elements' type, if `dtype` is only its storage. Raises NotSupported, with a reason code,
        if the host may not compute it either.
        """
        choice = _judge(op, dtype, datatype)
        if choice.reason is None:
            return choice
        with self._lock:
            self._counts[choice.reason] += 1
        possible = choice.reason is not Reason.OP_UNKNOWN and datatype is None  # the host computes numpy's types only
        if not (self.fallback and possible):
            remedy = _REMEDY if possible else "Use one of those that are named."
            raise NotSupported(f"{choice.detail} ({choice.reason})", remedy=remedy, reason=choice.reason)
        return choice

    def counts(self) -> dict[str, int]:
        """How many reductions were not offloaded, by reason."""
        with self._lock:
            return {str(reason): count for reason, count in self._counts.items()}


_REMEDY = "Use a supported combination (capabilities()), or let the host compute: Communicator(..., fallback=True)."


def _judge(op: OpName, dtype: np.dtype, name: str | None) -> Choice:
    if name is not None and not isinstance(name, str):
        raise InvalidRequest(f"datatype {name!r} is not known", remedy="Give a name such as 'bf16', or leave it out.")
    if isinstance(op, str):
        return _judge_named(op, dtype, name)
    if not callable(op):
        raise InvalidRequest(
            f"op {op!r} is neither the name of an operation nor a function",
            remedy="Give a name such as 'sum' (capabilities() has all), or a function of two arrays.",
        )
    return Choice(reason=Reason.OP_CALLABLE, detail=f"op is the function {op!r}, which devices can not run")


@functools.lru_cache(maxsize=256)
def _judge_named(op: str, dtype: np.dtype, name: str | None) -> Choice:
    reason = Reason.OP_UNKNOWN
    try:
        operation = operation_by_name(op)
        reason = Reason.DTYPE
        datatype = datatype_of(dtype) if name is None else _stored_type(name, dtype)
        reason = Reason.OP_DTYPE
        check_supported(operation, datatype)
    except (UnsupportedOperation, UnsupportedDataType) as error:
        return Choice(reason=reason, detail=str(error))
    return Choice(int(operation.code), int(datatype.code))


def _stored_type(name: str, dtype: np.dtype) -> DataType:
    datatype = datatype_by_name(name)
    if dtype != datatype.numpy and datatype_of(dtype) != datatype:
        raise InvalidRequest(
            f"an array of {dtype} can not hold {name}, which is stored as {datatype.numpy}",
            remedy=f"Leave datatype out, or give an array of {datatype.numpy} that holds such elements.",
        )
    return datatype
