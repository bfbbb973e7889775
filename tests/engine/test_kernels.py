"""Arithmetic bit for bit: the engine's kernels, used through packets, against the oracles of fanin_wire."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS, Operation
from tests.engine.rig import SwitchRig

CHILDREN = 3
EVERY_OPERATION = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
EVERY_TYPE = pytest.mark.parametrize("datatype", DATATYPES, ids=lambda datatype: datatype.name)
FLOATS = [0.0, -0.0, 1.0, -1.5, 3.0, np.inf, -np.inf, np.nan]


def edges(datatype: DataType) -> np.ndarray:
    """Values at which implementations differ."""
    if not datatype.is_float:
        limits = np.iinfo(datatype.numpy)
        return np.array([0, 1, -1, 2, -7, limits.max, limits.min, limits.min + 1], datatype.numpy)
    limits, integer = np.finfo(datatype.numpy), f"<u{datatype.itemsize}"
    rounding = [limits.max, limits.tiny, limits.smallest_subnormal, -limits.smallest_subnormal, 1 + limits.eps, 1 / 3]
    quiet = np.array([np.nan], datatype.numpy).view(integer)
    signalling = (quiet ^ (quiet & -quiet)) | 1  # the quiet bit is the lowest one set
    odd = np.concatenate([signalling, quiet | np.array(1 << (8 * datatype.itemsize - 1), integer), quiet | 5])
    return np.concatenate([np.array(FLOATS + rounding, datatype.numpy), odd.view(datatype.numpy)])


def reduce(operation: Operation, data: np.ndarray) -> np.ndarray:
    """What a switch makes of one contribution for each row of `data`, in this order."""
    rig = SwitchRig(len(data))
    for bit, row in enumerate(data):
        sent = rig.contribute(bit, 0, row, op=operation.code)
    assert len({packet.payload for packet in sent}) == 1
    return np.frombuffer(sent[0].payload, data.dtype)


def bits(values: np.ndarray) -> list[int]:
    """The values as they are in memory."""
    return values.view(f"<u{values.itemsize}").tolist()


@EVERY_OPERATION
@EVERY_TYPE
def test_every_pair_of_edges(operation: Operation, datatype: DataType) -> None:
    values = edges(datatype)
    rows = 64 // datatype.itemsize
    pairs = np.array(np.meshgrid(values, values)).reshape(2, -1)
    for start in range(0, pairs.shape[1], rows):
        data = np.ascontiguousarray(pairs[:, start : start + rows])
        assert bits(reduce(operation, data)) == bits(operation.oracle(data))


@EVERY_OPERATION
@EVERY_TYPE
def test_single_contribution_is_unchanged(operation: Operation, datatype: DataType) -> None:
    values = edges(datatype)[: 64 // datatype.itemsize]
    assert bits(reduce(operation, values[None])) == bits(values)


@EVERY_OPERATION
@EVERY_TYPE
@given(data=st.data())
def test_any_bits(operation: Operation, datatype: DataType, data: st.DataObject) -> None:
    size = CHILDREN * datatype.itemsize * data.draw(st.integers(1, 64 // datatype.itemsize))
    raw = data.draw(st.binary(min_size=size, max_size=size))
    rows = np.frombuffer(raw, datatype.numpy).reshape(CHILDREN, -1)
    assert bits(reduce(operation, rows)) == bits(operation.oracle(rows))


def test_integer_mean_divides_toward_zero() -> None:
    mean = next(operation for operation in OPERATIONS if operation.name == "MEAN")
    data = np.array([[-7, 7, -1], [0, 0, 0], [0, 0, 0]], "<i4")
    assert reduce(mean, data).tolist() == [-2, 2, 0]


def test_mean_is_divided_by_the_ranks_not_by_the_children() -> None:
    rig = SwitchRig()
    mean = next(operation for operation in OPERATIONS if operation.name == "MEAN")
    rig.contribute(0, 0, np.array([10.0], "<f8"), op=mean.code, contributions=3)
    sent = rig.contribute(1, 0, np.array([2.0], "<f8"), op=mean.code, contributions=1)
    assert np.frombuffer(sent[0].payload, "<f8") == 3.0
    assert sent[0].ceth["contributions"] == 4
