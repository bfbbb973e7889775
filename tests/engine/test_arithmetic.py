"""Arithmetic through packets: the engine calls the right kernels in the right order."""

import numpy as np
import pytest

from fanin_wire.abi import DType, Op
from fanin_wire.datatypes import DataType, datatype_by_name
from fanin_wire.operations import Operation, operation_by_name
from tests.engine.rig import CHUNK, SwitchRig
from tests.engine.vector_unit import COMBINATIONS, anything, name_of


def reduce(operation: Operation, data: np.ndarray, datatype: DataType, ranks: int = 1) -> bytes:
    """A switch's result for one contribution per row of `data`, in this order, each the data of `ranks` ranks."""
    rig = SwitchRig(len(data))
    for bit, row in enumerate(data):
        sent = rig.contribute(bit, 0, row, op=operation.code, dtype=datatype.code, contributions=ranks)
    assert len({packet.payload for packet in sent}) == 1
    assert {packet.ceth["contributions"] for packet in sent} == {len(data) * ranks}
    return sent[0].payload


@pytest.mark.parametrize("children", [1, 2, 3])
@pytest.mark.parametrize(("operation", "datatype"), COMBINATIONS, ids=name_of)
def test_every_combination(operation: Operation, datatype: DataType, children: int) -> None:
    data = anything(np.random.default_rng(children), (children, CHUNK // datatype.itemsize), datatype)
    assert reduce(operation, data, datatype) == operation.oracle(data, datatype).tobytes()


@pytest.mark.parametrize("name", ["f64", "f16", "bf16", "u8"])
@pytest.mark.parametrize("children", [1, 2])
def test_mean_is_divided_by_the_ranks_not_by_the_children(name: str, children: int) -> None:
    datatype, mean = datatype_by_name(name), operation_by_name("MEAN")
    data = anything(np.random.default_rng(7), (children, CHUNK // datatype.itemsize), datatype)
    wide = mean.widens(datatype) and children > 1
    total = mean.partial(data, datatype, wide=wide)
    assert reduce(mean, data, datatype, ranks=3) == mean.finish(total, 3 * children, datatype).tobytes()


def test_small_floats_are_rounded_once() -> None:
    half = 2.0**-11  # of the last digit of 1: rounded at each step it would be lost
    rig = SwitchRig(3)
    for bit, value in enumerate((1, half, half)):
        sent = rig.contribute(bit, 0, np.array([value], "<f2"), op=Op.SUM, dtype=DType.F16)
    assert np.frombuffer(sent[0].payload, "<f2").tolist() == [1 + 2 * half]
