"""The order of folding, against sums written out by hand."""

import numpy as np
import pytest

from fanin_wire.association import Device, Ring, reduce, reduce_message
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name

SUM, MEAN = operation_by_name("SUM"), operation_by_name("MEAN")
F16, BF16 = datatype_by_name("f16"), datatype_by_name("bf16")
ONE, EPSILON = np.float32(1), np.float32(2**-24)  # 1 + EPSILON is 1, but twice EPSILON counts
NODES = tuple(Device((2 * node, 2 * node + 1)) for node in range(3))


def rows(*values: float, dtype: str = "<f4") -> np.ndarray:
    return np.array(values, dtype)[:, None]


def test_a_device_folds_from_the_lowest_bit() -> None:
    assert reduce(Device((0, 1, 2)), rows(1, EPSILON, EPSILON), SUM)[0] == 1
    assert reduce(Device((0, 1, 2)), rows(EPSILON, EPSILON, 1), SUM)[0] > 1
    assert reduce(Device((2, 1, 0)), rows(EPSILON, EPSILON, 1), SUM)[0] == 1


def test_a_tree_folds_each_device_by_itself() -> None:
    values = rows(1, 0, EPSILON, EPSILON)
    assert reduce(Device((0, 1, 2, 3)), values, SUM)[0] == 1
    assert reduce(Device((Device((0, 1)), Device((2, 3)))), values, SUM)[0] > 1


def test_a_ring_starts_behind_the_number_of_the_segment() -> None:
    """(a + b) + c with the start a: 1 + e + e from node 0 on, e + e + 1 from node 1 on."""
    nodes = (Device((0,)), Device((1,)), Device((2,)))
    values = rows(1, EPSILON, EPSILON)
    found = [reduce(Ring(nodes), values, SUM, sid=sid)[0] for sid in range(3)]
    assert [value > 1 for value in found] == [True, False, False]
    assert all(reduce(Ring(nodes, rotates=False), values, SUM, sid=sid)[0] == 1 for sid in range(3))


def test_a_node_of_a_ring_folds_its_ranks_before_what_it_receives() -> None:
    nodes = (Device((0,)), Device((1, 2)))
    assert reduce(Ring(nodes, rotates=False), rows(1, EPSILON, EPSILON), SUM)[0] > 1


def test_message_of_a_ring_takes_each_segment_from_its_own_start() -> None:
    nodes = tuple(Device((rank,)) for rank in range(3))
    values = np.repeat(rows(1, EPSILON, EPSILON), 6, axis=1)
    result = reduce_message(Ring(nodes), values, SUM, [(0, 2), (2, 4), (4, 6)])
    assert (result > 1).tolist() == [True, True, False, False, False, False]


def test_f16_is_rounded_once_in_each_device() -> None:
    """In f16 the numbers around 2048 are even: 2048 + 1 is 2048, and 2048 + 1 + 1 in f32 is 2050."""
    values = rows(2048, 1, 1, dtype="<f2")
    assert reduce(Device((0, 1, 2)), values, SUM)[0] == 2050
    assert reduce(Device((Device((0, 1)), 2)), values, SUM)[0] == 2048
    assert reduce(Device((Device((0, 1)), 2)), values, SUM, wide=True)[0] == 2050
    assert reduce(Ring((Device((0,)), Device((1,)), Device((2,))), rotates=False), values, SUM)[0] == 2048


def test_mean_is_divided_before_it_is_rounded() -> None:
    """(2048 + 1) / 2 is 1024.5; rounded before the division it would be 1024."""
    values = rows(2048, 1, dtype="<f2")
    assert reduce(Device((0, 1)), values, MEAN)[0] == np.float16(1024.5)
    assert reduce(Device((Device((0, 1)),)), values, MEAN)[0] == 1024


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("operation", ["SUM", "PROD", "MEAN"])
def test_the_chain_of_shape_has_the_bits_of_one_switch(operation: str, dtype: str) -> None:
    datatype = datatype_by_name(dtype)
    bits = np.random.default_rng(1).integers(0, 2**16, (6, 1000), np.uint16)  # any f16 or bf16, NaNs among them
    values = bits if dtype != "f32" else (bits.astype("<u4") << 16).view("<f4")
    values = values.view(datatype.numpy)
    switch, chain = Device(NODES), Ring(NODES, rotates=False)
    found = [reduce(path, values, operation_by_name(operation), datatype, wide=True) for path in (switch, chain)]
    assert found[0].tobytes() == found[1].tobytes()


def test_a_single_rank_keeps_its_bits() -> None:
    payload = np.array([[0x7E01, 0xFFFF, 0x8000]], np.uint16)
    for datatype in (F16, BF16):
        assert reduce(Device((0,)), payload.view(datatype.numpy), SUM, datatype).tobytes() == payload.tobytes()


def test_operations_on_pairs_leave_no_padding() -> None:
    pair = datatype_by_name("f64_i32")
    values = np.zeros((4, 3), pair.numpy)
    values["value"], values["index"] = [[2], [1], [1], [3]], [[0], [5], [4], [9]]
    result = reduce_message(
        Device((Device((0, 1)), Device((2, 3)))), values, operation_by_name("MINLOC"), [(0, 3)], pair
    )
    assert result.tobytes() == np.array([(1, 4)] * 3, pair.numpy).tobytes()
