"""A call that can not be offloaded is refused by name and counted, or computed on the host if allowed."""

import numpy as np
import pytest

from fanin import Communicator, Reason, errors
from fanin_wire.datatypes import DATATYPES
from fanin_wire.operations import OPERATIONS
from tests.waiting import BOUND_S

SIZE = 3
REFUSED = [
    ("f4", "band", Reason.OP_DTYPE, "BAND of f32"),
    ("c16", "max", Reason.OP_DTYPE, "MAX of c128"),
    ("S4", "sum", Reason.DTYPE, "supported: f32"),
    (">f4", "sum", Reason.DTYPE, "little-endian"),
    ([("a", "f4")], "sum", Reason.DTYPE, "A pair has"),
    ("f4", "product", Reason.OP_UNKNOWN, "SUM, MIN, MAX, MEAN"),
    ("f4", "", Reason.OP_UNKNOWN, "SUM, MIN, MAX, MEAN"),
    ("f4", np.hypot, Reason.OP_CALLABLE, "function"),
]


@pytest.mark.parametrize(("dtype", "op", "reason", "text"), REFUSED, ids=[str(case[:2]) for case in REFUSED])
def test_refused_by_name_and_counted(run_ranks, device, dtype, op, reason, text):
    array = np.zeros(4, dtype)

    def program(communicator):
        for use in (communicator.allreduce, communicator.ireduce, communicator.reduce_scatter_init):
            with pytest.raises(errors.NotSupported, match=text) as caught:
                use(array, op=op)
            assert caught.value.reason == reason
            assert reason in str(caught.value)
        assert communicator.status()["not_offloaded"] == {reason: 3}
        return communicator.not_offloaded

    assert run_ranks(device, 1, program) == [{reason: 3}]


@pytest.mark.parametrize("op", [1, None, b"sum"], ids=str)
def test_operation_that_is_neither_name_nor_function(run_ranks, device, op):
    def program(communicator):
        with pytest.raises(errors.InvalidRequest, match="sum"):
            communicator.allreduce(np.ones(2), op=op)
        return communicator.not_offloaded

    assert run_ranks(device, 1, program) == [{}]


@pytest.mark.parametrize(("dtype", "datatype"), [("u1", "bf16"), ("u2", "f32"), ("f4", "u32")])
def test_type_that_is_stored_otherwise(run_ranks, device, dtype, datatype):
    def program(communicator):
        with pytest.raises(errors.InvalidRequest, match="stored as"):
            communicator.allreduce(np.ones(2, dtype), datatype=datatype)
        return True

    assert run_ranks(device, 1, program) == [True]


def test_capabilities(run_ranks, device):
    found = run_ranks(device, 2, lambda communicator: communicator.capabilities(), slots=32, chunk=1024, wide=True)
    assert found[0] == found[1]
    capabilities = found[0]
    assert "reduce_scatter" in capabilities.collectives
    assert "gatherv" in capabilities.collectives
    assert len(capabilities.collectives) == 11
    assert all(hasattr(Communicator, name) for name in capabilities.collectives)
    assert capabilities.operations.keys() == {operation.name for operation in OPERATIONS}
    assert capabilities.operations["BAND"] == ("i32", "i64", "i8", "i16", "u8", "u16", "u32", "u64")
    assert {name for names in capabilities.operations.values() for name in names} == {row.name for row in DATATYPES}
    assert (capabilities.route, capabilities.chunk, capabilities.slots, capabilities.window) == ("local", 1024, 32, 16)
    assert (capabilities.wide, capabilities.reproducible) == (True, "none")
    assert capabilities.max_bytes > 1 << 39


def data(rank: int, count: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(rank).integers(1, 100, count).astype(dtype)


FOLDED = [
    ("f4", np.subtract, lambda rows: rows[0] - rows[1] - rows[2]),
    ("f8", lambda a, b: a * 2 + b, lambda rows: rows[0] * 4 + rows[1] * 2 + rows[2]),
    (">i4", "sum", lambda rows: rows.sum(axis=0)),
    (">f8", "mean", lambda rows: (rows[0] + rows[1] + rows[2]) / 3),
    ("c16", "prod", lambda rows: rows[0] * rows[1] * rows[2]),
    ("f4", "land", lambda rows: np.ones(rows.shape[1], "f4")),
]


@pytest.mark.parametrize(("dtype", "op", "expected"), FOLDED, ids=lambda value: str(value)[:20])
def test_host_computes_where_it_may(run_ranks, device, dtype, op, expected):
    """In rank order, the same bits everywhere, in all forms; counted."""
    count = 6

    def program(communicator):
        mine = data(communicator.rank, count, dtype)
        request = communicator.allreduce_init(mine, op=op)
        found = [
            communicator.allreduce(mine, op=op),
            communicator.iallreduce(mine, out=mine.copy(), op=op).wait(BOUND_S),
            request.start().wait(BOUND_S).copy(),
            request.start().wait(BOUND_S),
            communicator.reduce(mine, op=op, root=1),
            communicator.reduce_scatter(mine, op=op),
            communicator.reduce_scatter(mine, op=op, counts=[0, count, 0]),
        ]
        in_place = mine.copy()
        assert communicator.allreduce(in_place, out=in_place, op=op) is in_place
        return [*found, in_place], sum(communicator.not_offloaded.values())

    total = expected(np.stack([data(rank, count, dtype) for rank in range(SIZE)]))
    for rank, (found, counted) in enumerate(run_ranks(device, SIZE, program, fallback=True)):
        for value in (*found[:4], found[7]):
            assert value.dtype == dtype
            assert np.array_equal(value, total.astype(dtype))
        assert found[4] is None if rank != 1 else np.array_equal(found[4], total.astype(dtype))
        assert np.array_equal(found[5], total.astype(dtype)[2 * rank : 2 * rank + 2])
        assert np.array_equal(found[6], total.astype(dtype) if rank == 1 else [])
        assert counted == 7


@pytest.mark.parametrize(
    ("dtype", "op", "datatype"),
    [
        ("M8[s]", "sum", None),
        ("f4", "minloc", None),
        ("f4", "bxor", None),
        ("u2", "land", "bf16"),
        ("f4", "nothing", None),
        ("S1", "sum", None),
        ("U3", "max", None),
        ("?", "sum", None),
        ("?", "prod", None),
        ("?", "mean", None),
        ("c8", "min", None),
    ],
)
def test_operations_beyond_the_host(run_ranks, device, dtype, op, datatype):
    def program(communicator):
        with pytest.raises(errors.NotSupported):
            communicator.allreduce(np.zeros(2, dtype), op=op, datatype=datatype)
        return communicator.allreduce(np.ones(1))[0]

    assert run_ranks(device, 2, program, fallback=True) == [2.0, 2.0]


def test_function_that_raises(run_ranks, device):
    """Each rank gets its own exception; the communicator goes on."""

    def divide(a, b):
        raise ZeroDivisionError("of the program")

    def program(communicator):
        with pytest.raises(ZeroDivisionError, match="of the program"):
            communicator.allreduce(np.ones(2), op=divide)
        return communicator.allreduce(np.ones(1))[0]

    assert run_ranks(device, 2, program, fallback=True) == [2.0, 2.0]


BENT = [
    ("f8", lambda a, b: None, "a NoneType"),
    ("f8", lambda a, b: 0.0, "a float"),
    ("f8", lambda a, b: np.float64(0), "a float64"),
    ("f8", lambda a, b: np.ones(7), r"an array of shape \(7,\) and type float64"),
    ("i8", lambda a, b: a / b, r"an array of shape \(3,\) and type float64 for two arrays of .* type int64"),
    ("i8", np.equal, r"an array of shape \(3,\) and type bool"),
]


@pytest.mark.parametrize(("dtype", "op", "text"), BENT, ids=[text[:30] for _, _, text in BENT])
def test_function_whose_result_is_not_like_the_arrays(run_ranks, device, dtype, op, text):
    """numpy would accept it: NaN for None, one number for all elements, a float cut off."""

    def program(communicator):
        with pytest.raises(errors.InvalidRequest, match=f"op returned {text}") as caught:
            communicator.allreduce(np.ones(3, dtype), op=op)
        assert "astype" in caught.value.remedy
        return communicator.allreduce(np.ones(1))[0]

    assert run_ranks(device, 2, program, fallback=True) == [2.0, 2.0]


def test_mean_of_integers_on_the_host_is_that_of_the_devices(run_ranks, device):
    """Toward zero, and exact where a float is not."""
    numbers = [-(2**60) - 1, -7, 8, 2**62 - 1]

    def program(communicator):
        mine = np.array(numbers) if communicator.rank else np.zeros(4, int)
        there, here = communicator.allreduce(mine, op="mean"), communicator.allreduce(mine.astype(">i8"), op="mean")
        assert communicator.not_offloaded == {"DTYPE": 1}
        return there.tolist(), here.tolist()

    mean = [-(2**59), -3, 4, 2**61 - 1]
    assert run_ranks(device, 2, program, fallback=True) == [(mean, mean)] * 2


def test_children_inherit_the_permission(run_ranks, device):
    def program(communicator):
        with communicator.dup() as child:
            total = child.allreduce(np.array([3.0]), op=np.maximum)[0]
            return total, child.not_offloaded, communicator.not_offloaded

    assert run_ranks(device, 2, program, fallback=True) == [(3.0, {"OP_CALLABLE": 1}, {})] * 2
