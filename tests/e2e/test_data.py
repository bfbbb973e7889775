"""Results equal the oracles of fanin_wire bit for bit: types, operations, sizes, kinds of memory, shapes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fanin import Communicator
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.datatypes import DATATYPES, Family, datatype_by_name
from fanin_wire.operations import OPERATIONS, operation_by_name
from tests.e2e.fabrics import BOUND_S, Bench, assert_released
from tests.e2e.members import job, run_ranks

NODES, RANKS = 4, 8
ROUTES = ("tree", "ring", "local")
# Left out below, since whole numbers may be rounded; the matrix and the tests of the kernels have these families.
ROUNDED = (Family.SMALL_FLOAT, Family.PAIR)
EXACT = [
    (operation.name.lower(), entry.name)
    for operation in OPERATIONS
    for entry in DATATYPES
    if operation.takes(entry)
    and entry.family not in ROUNDED
    and (operation.name, entry.family) != ("PROD", Family.FLOAT)
]
SIZES = (0, 1, 3, 4095, 4096, 4097)  # bytes, rounded up to whole elements
OUTSTANDING = 600  # more than a send queue holds


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, RANKS // NODES))


@pytest.fixture(scope="module", params=ROUTES)
def members(request: pytest.FixtureRequest, running: Running) -> Any:
    """The ranks of one job for each route, shared by all tests of it."""
    size = RANKS // NODES if request.param == "local" else RANKS
    with job(running, size, request.param) as found:
        yield found
    assert_released(running)


def numbers(seed: int, rank: int, dtype: str, elements: int) -> np.ndarray:
    """Whole numbers: sums of floats are exact, with the same bits in every order."""
    drawn = np.random.default_rng([seed, rank]).integers(-1000, 1000, elements, endpoint=True)
    return drawn.astype(datatype_by_name(dtype).numpy)


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def assert_all(outcomes: list[np.ndarray], expected: np.ndarray) -> None:
    for rank, outcome in enumerate(outcomes):
        assert bits(outcome) == bits(expected), f"rank {rank}"


def reduce_all(members: list[Communicator], inputs: list[np.ndarray], op: str, **keywords: Any) -> list[np.ndarray]:
    return run_ranks(
        len(members), lambda rank: members[rank].allreduce(inputs[rank], op=op, timeout=BOUND_S, **keywords)
    )


@pytest.mark.parametrize(("op", "dtype"), EXACT)
def test_every_type_and_operation_at_every_size(members: list[Communicator], op: str, dtype: str) -> None:
    itemsize = datatype_by_name(dtype).itemsize
    for size in SIZES:
        inputs = [numbers(size, rank, dtype, -(-size // itemsize)) for rank in range(len(members))]
        expected = operation_by_name(op).oracle(np.stack(inputs))
        assert_all(reduce_all(members, inputs, op), expected)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_least_and_greatest_of_special_values(members: list[Communicator], dtype: str, op: str) -> None:
    """Signs of zero, infinities and NaN: the result does not depend on the order, so it is the oracle's."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], datatype_by_name(dtype).numpy)
    inputs = [np.roll(np.tile(special, 1000), rank) for rank in range(len(members))]
    expected = operation_by_name(op).oracle(np.stack(inputs))
    assert_all(reduce_all(members, inputs, op), expected)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_integer_sums_wrap(members: list[Communicator], dtype: str) -> None:
    kind = datatype_by_name(dtype).numpy
    inputs = [np.full(5000, np.iinfo(kind).max - rank, kind) for rank in range(len(members))]
    assert_all(reduce_all(members, inputs, "sum"), operation_by_name("sum").oracle(np.stack(inputs)))


def test_rounded_sums_have_the_same_bits_on_every_rank(members: list[Communicator]) -> None:
    inputs = [np.random.default_rng(rank).standard_normal(100_001).astype("f4") for rank in range(len(members))]
    outcomes = reduce_all(members, inputs, "sum")
    assert_all(outcomes, outcomes[0])
    np.testing.assert_allclose(outcomes[0], np.sum(np.stack(inputs).astype("f8"), axis=0), rtol=1e-3, atol=1e-4)


def sources(member: Communicator, elements: int, registered: bool) -> tuple[np.ndarray, np.ndarray]:
    """Input and result, in memory of this kind."""
    make = member.alloc if registered else np.zeros
    return make(elements, np.float32), make(elements, np.float32)


@pytest.fixture(scope="module")
def unstaged(running: Running) -> Iterator[list[Communicator]]:
    """Devices access their ordinary memory directly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FANIN_STAGING", "0")
        with job(running, 4, "tree") as joined:
            yield joined


def test_ordinary_memory_that_devices_read_themselves(unstaged: list[Communicator]) -> None:
    elements = 50_001

    def act(rank: int) -> list[np.ndarray]:
        source = np.arange(elements, dtype="f4") % 1000 + rank
        apart = unstaged[rank].allreduce(source, timeout=BOUND_S)
        return [apart, unstaged[rank].allreduce(source, out=source, timeout=BOUND_S)]

    outcomes = [each for both in run_ranks(len(unstaged), act) for each in both]
    assert_all(outcomes, (np.arange(elements) % 1000 * 4 + 6).astype("f4"))


@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in-place"])
@pytest.mark.parametrize(
    "kinds", [(True, True), (False, False), (True, False)], ids=["registered", "ordinary", "mixed"]
)
def test_kinds_of_memory(members: list[Communicator], kinds: tuple[bool, bool], in_place: bool) -> None:
    elements = 150_001

    def act(rank: int) -> np.ndarray:
        source, result = sources(members[rank], elements, kinds[rank % 2])
        source[:] = np.arange(elements) % 1000 + rank
        returned = members[rank].allreduce(source, out=source if in_place else result, timeout=BOUND_S)
        assert returned is (source if in_place else result)
        return returned

    size = len(members)
    assert_all(run_ranks(size, act), (np.arange(elements) % 1000 * size + sum(range(size))).astype("f4"))


def test_out_in_another_kind_of_memory_than_the_input(members: list[Communicator]) -> None:
    def act(rank: int) -> np.ndarray:
        result = members[rank].alloc(9000, np.int64)
        return members[rank].allreduce(np.full(9000, rank), out=result, timeout=BOUND_S)

    assert_all(run_ranks(len(members), act), np.full(9000, sum(range(len(members)))))


def test_read_only_and_scattered_inputs(members: list[Communicator]) -> None:
    size = len(members)
    whole = np.arange(24_000, dtype="f8").reshape(120, 200)

    def act(rank: int) -> list[np.ndarray]:
        frozen = whole + rank
        frozen.flags.writeable = False
        views = [frozen, frozen.T, frozen[::3, 1::7], np.asfortranarray(frozen)]
        return [members[rank].allreduce(view, timeout=BOUND_S) for view in views]

    total = whole * size + sum(range(size))
    expected = [total, total.T, total[::3, 1::7], total]
    for outcome in run_ranks(size, act):
        for have, want in zip(outcome, expected, strict=True):
            assert have.shape == want.shape
            assert np.array_equal(have, want)


def test_anything_with_a_buffer(members: list[Communicator]) -> None:
    def act(rank: int) -> bytearray:
        data = memoryview(np.full(300, rank, "<i4").tobytes()).cast("i")
        result = bytearray(1200)
        members[rank].allreduce(data, out=memoryview(result).cast("i"), timeout=BOUND_S)
        return result

    expected = np.full(300, sum(range(len(members))), "<i4").tobytes()
    assert run_ranks(len(members), act) == [expected] * len(members)


def test_no_dimension_and_many_dimensions(members: list[Communicator]) -> None:
    def act(rank: int) -> tuple[np.ndarray, np.ndarray]:
        return (
            members[rank].allreduce(np.float64(rank), timeout=BOUND_S),
            members[rank].allreduce(np.full((2, 3, 5, 7), rank, "i8"), timeout=BOUND_S),
        )

    for scalar, block in run_ranks(len(members), act):
        assert scalar.shape == ()
        assert scalar == sum(range(len(members)))
        assert block.shape == (2, 3, 5, 7)
        assert (block == sum(range(len(members)))).all()


def test_many_outstanding_requests_of_all_sizes(members: list[Communicator]) -> None:
    sizes = [number * 37 % 3000 for number in range(OUTSTANDING)]

    def act(rank: int) -> list[int]:
        arrays = [np.full(size, rank + number, "i4") for number, size in enumerate(sizes)]
        requests = [members[rank].iallreduce(array, out=array) for array in arrays]
        for request in reversed(requests):
            request.wait(BOUND_S)
        return [int(array.max(initial=0)) for array in arrays]

    count = len(members)
    expected = [sum(range(count)) + number * count if size else 0 for number, size in enumerate(sizes)]
    assert run_ranks(count, act) == [expected] * count


def test_operations_and_types_in_turn_without_waiting(members: list[Communicator]) -> None:
    plan = EXACT * 3

    def act(rank: int) -> list[np.ndarray]:
        requests = [members[rank].iallreduce(numbers(7, rank, dtype, 2500), op=op) for op, dtype in plan]
        return [request.wait(BOUND_S) for request in requests]

    for outcome in run_ranks(len(members), act):
        for (op, dtype), have in zip(plan, outcome, strict=True):
            inputs = np.stack([numbers(7, rank, dtype, 2500) for rank in range(len(members))])
            assert bits(have) == bits(operation_by_name(op).oracle(inputs))
