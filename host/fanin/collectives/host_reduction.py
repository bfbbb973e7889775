"""Reductions that devices do not compute, if the program allows it: the data are gathered, the host folds.

The fold goes in rank order, so all ranks get the same bits. A result must have the shape and type of the data: what
numpy would convert (another type, a scalar, text) is refused.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fanin.collectives.call import Call, Group
from fanin.collectives.offload import OpName, Reason
from fanin.errors import InvalidRequest, NotSupported
from fanin_wire import arithmetic
from fanin_wire.collectives import collective
from fanin_wire.datatypes import Family
from fanin_wire.operations import operation_by_name

Fold = Callable[[np.ndarray], Any]

# Types for which numpy computes something else than the operation: it joins texts, adds truths for their "or", and
# orders complex numbers by their real parts.
TEXTS = "SU"
MEANINGLESS = {"SUM": "b", "PROD": "b", "MEAN": "b", "MIN": "c", "MAX": "c", "LAND": "M", "LOR": "M", "LXOR": "M"}
INTEGERS = "iu"


def computed(group: Group, call: Call, op: OpName, datatype: str | None) -> Call:
    """A reduction as the devices compute it; else, if the program allows it, as the host does.

    The host's call moves the data, and folds them at the end. NotSupported if numpy can not compute it either.
    """
    assert call.source is not None
    source = call.source
    choice = group.offload.choose(op, source.dtype, datatype)
    if choice.reason is None:
        call.op, call.dtype = choice.op, choice.dtype
        return call
    fold, name = _fold(op, choice.reason, source.dtype), call.row.name
    row = collective("gather" if call.row.has_root else "allgather")  # to those who want the result
    gathered = replace(call, row=row, sizes=(source.nbytes,) * group.size, on_host=name)
    if call.destination is not None:
        gathered.destination = contributions = np.empty((group.size, source.size), source.dtype)
        wanted = _wanted(call, group.rank, source.itemsize)
        gathered.conclude = functools.partial(_conclude, fold, contributions[:, wanted], call.destination, call.result)
    return gathered


def _wanted(call: Call, rank: int, itemsize: int) -> slice:
    if not call.row.wants.own:
        return slice(None)
    start = sum(call.sizes[:rank])
    return slice(start // itemsize, (start + call.sizes[rank]) // itemsize)


def _conclude(fold: Fold, contributions: np.ndarray, destination: np.ndarray, result: Any, _: object) -> Any:
    with np.errstate(all="ignore"):
        destination.reshape(-1)[...] = fold(contributions)
    return result


def _fold(op: OpName, reason: Reason, dtype: np.dtype) -> Fold:
    """From contributions (ranks, elements) to the result (elements,)."""
    if callable(op):
        return functools.partial(_by_function, op)
    name, operation = op.upper(), operation_by_name(op)
    fold = _mean if name == "MEAN" else functools.partial(functools.reduce, operation.step)
    try:
        if dtype.kind in TEXTS + MEANINGLESS.get(name, "") or operation.families == (Family.PAIR,):
            raise TypeError
        fold(np.zeros((2, 1), dtype))
    except TypeError:
        raise NotSupported(
            f"neither the devices nor numpy compute {name} of {dtype} ({reason})",
            remedy="Use an operation that has a meaning for these elements.",
            reason=reason,
        ) from None
    return fold


def _by_function(function: Callable[[np.ndarray, np.ndarray], Any], contributions: np.ndarray) -> np.ndarray:
    """The fold by a function of the program; each of its results is checked."""

    def step(accumulated: np.ndarray, contribution: np.ndarray) -> np.ndarray:
        result = function(accumulated, contribution)
        _require_same_layout(result, contribution)
        return result

    return functools.reduce(step, contributions)


def _require_same_layout(result: Any, data: np.ndarray) -> None:
    """InvalidRequest unless a function returned an array like its arguments, in any byte order."""
    if isinstance(result, np.ndarray):
        found = f"an array of shape {result.shape} and type {result.dtype}"
        if result.shape == data.shape and result.dtype.newbyteorder("=") == data.dtype.newbyteorder("="):
            return
    else:
        found = f"a {type(result).__name__}"
    raise InvalidRequest(
        f"op returned {found} for two arrays of shape {data.shape} and type {data.dtype}",
        remedy="Let it return an array of the shape and type of its arguments (result.astype(a.dtype) converts).",
    )


def _mean(contributions: np.ndarray) -> np.ndarray:
    total = functools.reduce(np.add, contributions)
    if total.dtype.kind in INTEGERS:
        return arithmetic.divide(total, len(contributions))
    return total / len(contributions)
