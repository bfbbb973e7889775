"""Reproducible modes: the bits of the result depend neither on the times of posting nor on lost packets."""

import pytest

from fanin_sim.fabric.links import Faults
from fanin_sim.fabric.topology import Topology
from fanin_sim.jobs.job import Job, members_of
from fanin_sim.jobs.message import Message, order_dependent
from fanin_wire.abi import Route
from fanin_wire.datatypes import datatype_by_name
from tests.sim.shapes import MIXED, UNEVEN, Shape, joined, leave, simulation_of

RUNS = 50
ELEMENTS = 300
SPREAD = 2_000_000  # ns over which the ranks post
FAULTS = Faults(loss=0.02, jitter=300_000)
RANKS, NODES = 2, 5
SHAPES = {
    "node": Shape(Route.LOCAL, Topology.direct(1), 4),
    "switch": Shape(Route.TREE, Topology.one_switch(NODES), RANKS),
    "three levels": Shape(Route.TREE, Topology.fan_out(2, 2, 2), RANKS),
    "uneven tree": Shape(Route.TREE, UNEVEN, RANKS),
    "mixed tree": Shape(Route.TREE, MIXED, RANKS),
    "ring": Shape(Route.RING, Topology.direct(NODES), RANKS),
}
EVERY_TYPE = pytest.mark.parametrize("dtype", ["f32", "bf16"])
EVERY_SHAPE = pytest.mark.parametrize("name", SHAPES)


def message_of(ranks: int, dtype: str, operation: str = "SUM") -> Message:
    """The same data for every job of `ranks` ranks. The bits of their sum depend on the order of addition."""
    datatype = datatype_by_name(dtype)
    return Message(
        "allreduce", order_dependent(datatype, (ranks, ELEMENTS), 1), ranks, operation=operation, datatype=datatype
    )


def run(shape: Shape, message: Message, seed: int, mode: str) -> tuple[set[bytes], bytes]:
    """The distinct results of all ranks, and the expected result."""
    members = members_of(shape.topology.nodes, shape.ranks)
    job = joined(Job(simulation_of(shape, seed, FAULTS), shape.route, members, reproducible=mode))
    for member in members:
        job.device(member).register_process(job.queue(member))
    results = job.start(message, spread=SPREAD, process_memory=seed % 2 > 0)
    job.finish()
    expected = job.expected(message)[0].tobytes()
    leave(job)
    return {result.tobytes() for result in results}, expected


def patterns(name: str, dtype: str, mode: str, operation: str = "SUM") -> tuple[set[bytes], set[bytes]]:
    """The distinct results of many runs, and the expected results."""
    shape = SHAPES[name]
    message = message_of(shape.topology.nodes * shape.ranks, dtype, operation)
    seen, expected = zip(*(run(shape, message, seed, mode) for seed in range(RUNS)), strict=True)
    return set().union(*seen), set(expected)


@EVERY_TYPE
@EVERY_SHAPE
def test_run_has_one_pattern_per_shape(name: str, dtype: str) -> None:
    seen, expected = patterns(name, dtype, "run")
    assert len(seen) == 1
    assert seen == expected


@EVERY_TYPE
def test_shape_has_one_pattern_for_switch_and_ring(dtype: str) -> None:
    found = [patterns(name, dtype, "shape") for name in ("switch", "ring")]
    assert len({pattern for seen, _ in found for pattern in seen}) == 1
    assert all(seen == expected for seen, expected in found)


@EVERY_TYPE
@pytest.mark.parametrize("name", ["three levels", "mixed tree"])
def test_shape_over_levels_equals_its_own_oracle(name: str, dtype: str) -> None:
    seen, expected = patterns(name, dtype, "shape")
    assert seen == expected


@pytest.mark.parametrize("mode", ["run", "shape"])
@pytest.mark.parametrize("operation", ["PROD", "MEAN"])
@pytest.mark.parametrize("name", ["switch", "mixed tree", "ring"])
def test_other_operations(name: str, operation: str, mode: str) -> None:
    shape = SHAPES[name]
    for dtype in ("f16", "bf16", "f32", "f64"):
        message = message_of(shape.topology.nodes * shape.ranks, dtype, operation)
        seen, expected = run(shape, message, 3, mode)
        assert seen == {expected}, dtype


def test_without_a_mode_the_order_of_arrival_shows() -> None:
    """Proves that the data detect a wrong order."""
    seen, _ = patterns("switch", "f32", "none")
    assert len(seen) > 1


@EVERY_TYPE
def test_orders_and_shapes_differ(dtype: str) -> None:
    shapes = [shape for shape in SHAPES.values() if shape.topology.nodes == NODES]
    message = message_of(NODES * RANKS, dtype)
    expected = {run(shape, message, 0, "run")[1] for shape in shapes}
    assert len(expected) == len(shapes)
