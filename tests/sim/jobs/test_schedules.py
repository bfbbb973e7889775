"""Loss, duplication and reordering from seeds, over every route: results, completions, slots, invariants.

The simulator checks the invariants of slots and of memory after every event (`fanin_sim.fabric.invariants`). A failure
prints its seed, which repeats the run.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin_sim.fabric.links import Faults
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import Topology
from fanin_sim.jobs.job import Job, Member, members_of
from fanin_sim.jobs.message import Message, order_independent
from fanin_wire import abi
from fanin_wire.abi import Route, Status
from fanin_wire.datatypes import DATATYPES, DataType, datatype_by_name
from fanin_wire.operations import OPERATIONS, Operation
from tests.sim.shapes import (
    LOSSY,
    REORDERING,
    ROUGH,
    SHAPES,
    Shape,
    check_completions,
    check_results,
    formed,
    joined,
    leave,
)

pytestmark = pytest.mark.quick

EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
F32 = datatype_by_name("f32")
COMBINATIONS = [
    pytest.param(operation, datatype, id=f"{operation.name} of {datatype.name}")
    for operation in OPERATIONS
    for datatype in DATATYPES
    if operation.takes(datatype)
]


def allreduce_of(job: Job, elements: int, operation: str = "SUM", datatype: DataType = F32) -> Message:
    """Allreduce of values whose result does not depend on the order of reduction."""
    data = order_independent(datatype, operation, (len(job.members), elements), job.simulation.seed)
    return Message("allreduce", data, len(job.members), operation=operation, datatype=datatype)


@EVERY_SHAPE
@pytest.mark.parametrize("faults", [ROUGH, REORDERING, LOSSY], ids=["order_dependent", "reordering", "lossy"])
@pytest.mark.parametrize("seed", range(3))
def test_several_requests_through_faults(shape: Shape, faults: Faults, seed: int) -> None:
    job = formed(shape, seed, faults)
    messages = [allreduce_of(job, elements) for elements in (600, 1, 0, 77)]
    results = [job.start(message) for message in messages]
    job.finish(4)
    for message, result in zip(messages, results, strict=True):
        check_results(job, message, result)
    check_completions(job, 4)
    leave(job)


@pytest.mark.parametrize(("operation", "datatype"), COMBINATIONS)
def test_operations_and_types(operation: Operation, datatype: DataType) -> None:
    """Each combination over each shape with several nodes, in turn."""
    shapes = [shape for shape in SHAPES.values() if shape.topology.nodes > 1]
    shape = shapes[(operation.code * 5 + datatype.code) % len(shapes)]
    job = formed(shape, 7, ROUGH)
    message = allreduce_of(job, 100, operation.name, datatype)
    results = job.start(message)
    job.finish()
    check_results(job, message, results)
    leave(job)


@EVERY_SHAPE
@pytest.mark.parametrize("elements", [0, 1, 15, 16, 17, 255, 256, 257])
def test_sizes_in_process_memory(shape: Shape, elements: int) -> None:
    job = formed(shape, elements, ROUGH)
    for member in job.members:
        job.device(member).register_process(job.queue(member))
    message = allreduce_of(job, elements)
    results = job.start(message, process_memory=True)
    job.finish(min(elements, 1))
    check_results(job, message, results)
    leave(job)


@given(seed=st.integers(0, 2**32), loss=st.floats(0, 0.3), duplication=st.floats(0, 0.5), jitter=st.integers(0, 10**8))
@settings(max_examples=25, deadline=None, print_blob=True)
@pytest.mark.parametrize("name", ["tree", "three levels", "mixed tree", "ring of 4"])
def test_any_schedule(name: str, seed: int, loss: float, duplication: float, jitter: int) -> None:
    job = formed(SHAPES[name], seed, Faults(loss=loss, duplication=duplication, jitter=jitter), slots=4)
    message = allreduce_of(job, 150)
    results = job.start(message, spread=jitter)
    job.finish()
    check_results(job, message, results)
    check_completions(job, 1)
    leave(job)


@pytest.mark.parametrize("first", [2**32 - 1, 2**32 - 5, 2**31 - 5])
@pytest.mark.parametrize("name", ["one node", "tree", "three levels", "mixed tree", "ring of 4"])
def test_positions_wrap(name: str, first: int) -> None:
    shape = SHAPES[name]
    simulation = Simulation(shape.topology, 3, faults=ROUGH)
    for device in simulation.vertices:
        device.engine.header["first_position"] = first
    job = joined(Job(simulation, shape.route, members_of(shape.topology.nodes, shape.ranks), slots=8))
    message = allreduce_of(job, 300)
    results = job.start(message, spread=1_000_000)  # some ranks of a node are ahead of others
    job.finish()
    check_results(job, message, results)
    leave(job)


def test_same_seed_same_run() -> None:
    def run(seed: int) -> tuple:
        job = formed(SHAPES["tree"], seed, ROUGH)
        job.start(allreduce_of(job, 600))
        job.finish()
        return job.simulation.now, sorted(job.simulation.sent.items())

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_memory_that_can_not_be_read_poisons_for_all() -> None:
    job = formed(SHAPES["tree"], 1)
    bad = job.members.index(Member(1, 0))
    message = allreduce_of(job, 100)
    for number, member in enumerate(job.members):
        wqe = job.work_request(number, message, message.result(number))
        if number == bad:
            job.device(member).register_process(job.queue(member))
            wqe["source_lkey"] = abi.LKEY_PROCESS
            wqe["address"]["source"] = 4096
        job.post(member, wqe)
    job.finish()
    statuses = {int(job.completions(member)[0]["status"]) for member in job.members}
    assert statuses == {Status.LOCAL_PROTECTION_ERROR}
    again = job.start(message)
    job.finish(2)
    check_results(job, message, again)


def test_a_write_where_nothing_is_registered_is_seen() -> None:
    """The simulator itself must notice the write, not only the engine (I6)."""
    job = formed(Shape(Route.TREE, Topology.one_switch(2), 1), 0)
    message = allreduce_of(job, 10)
    results = job.start(message)
    job.device(job.members[0]).engine.tables["requests"]["address"]["destination"][:] = 4096
    with pytest.raises(AssertionError, match="bytes to"):
        job.finish()
    assert not np.any(results[0])
