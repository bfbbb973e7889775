"""Reductions that devices do not compute, where the program has allowed it: the data are gathered, the host folds.

The fold goes in rank order, so all ranks that want the result get the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fanin.call import Call
from fanin.collectives import collective
from fanin.errors import NotSupported
from fanin.offload import Choice, OpName, Reason

Fold = Callable[[np.ndarray], Any]

# How all data come to those who want the result of a reduction.
GATHERED_BY = {"allreduce": "allgather", "reduce": "gather", "reduce_scatter": "allgather"}

STEPS = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "LAND": np.logical_and,
    "LOR": np.logical_or,
    "LXOR": np.logical_xor,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}


def on_host(call: Call, source: np.ndarray, size: int, rank: int, op: OpName, choice: Choice) -> Call:
    """The call that takes the place of the reduction `call`: it moves data, and folds them at the end.

    Raises NotSupported if numpy can not compute the operation over the type either.
    """
    fold = _fold(op, choice, source.dtype)
    row = collective(GATHERED_BY[call.row.name])
    gathered = Call(call.name, row, (source.nbytes,) * size, source, result=call.result, root=call.root)
    gathered.timeout, gathered.fence = call.timeout, call.fence
    if call.destination is not None:
        contributions = np.empty((size, source.size), source.dtype)
        gathered.destination = contributions
        wanted = _wanted(call, rank, source.dtype.itemsize)
        gathered.conclude = functools.partial(_conclude, fold, contributions[:, wanted], call.destination)
    return gathered


def _wanted(call: Call, rank: int, itemsize: int) -> slice:
    """The elements that the rank wants of the result."""
    if not call.row.wants.own:
        return slice(None)
    start = sum(call.sizes[:rank])
    return slice(start // itemsize, (start + call.sizes[rank]) // itemsize)


def _conclude(fold: Fold, contributions: np.ndarray, destination: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        destination.reshape(-1)[...] = fold(contributions)


def _fold(op: OpName, choice: Choice, dtype: np.dtype) -> Fold:
    """Function of contributions (ranks, elements) to the result (elements,)."""
    if callable(op):
        return functools.partial(functools.reduce, op)
    name = op.upper()
    fold = _mean if name == "MEAN" else functools.partial(functools.reduce, STEPS.get(name, _nothing))
    try:
        fold(np.zeros((2, 1), dtype))
    except TypeError:
        raise NotSupported(
            f"{name} of {dtype} is computed neither by devices nor by numpy ({choice.reason})",
            remedy="Use an operation that has a meaning for these elements.",
            reason=str(choice.reason or Reason.OP_DTYPE),
        ) from None
    return fold


def _mean(contributions: np.ndarray) -> np.ndarray:
    return functools.reduce(np.add, contributions) / len(contributions)


def _nothing(accumulated: np.ndarray, contribution: np.ndarray) -> np.ndarray:
    """For operations that numpy has no step for."""
    raise TypeError
