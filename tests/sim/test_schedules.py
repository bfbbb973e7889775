"""Loss, duplication and reordering from seeds, over every route: results, completions, slots, invariants.

The simulator checks the invariants of slots and of memory after every event (`fanin_nic.sim.invariants`, `device`). A
failure names its seed: the same seed replays it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin_nic.engine.engine import Timing
from fanin_nic.sim.faults import Faults
from fanin_nic.sim.job import Job, Member, members_of
from fanin_nic.sim.simulation import Simulation
from fanin_wire import abi
from fanin_wire.abi import Op, Route, Status
from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS, Operation

ROUGH = Faults(loss=0.1, duplication=0.1, jitter=200_000, read_jitter=50_000)
REORDERING = Faults(duplication=0.3, jitter=1_000_000)
LOSSY = Faults(loss=0.3)


class Shape(NamedTuple):
    """A route over so many nodes; a tree with leaf switches has two levels."""

    route: abi.Route
    nodes: int
    ranks: int
    leaves: int = 0


SHAPES = {
    "one rank": Shape(Route.LOCAL, 1, 1),
    "one node": Shape(Route.LOCAL, 1, 4),
    "tree": Shape(Route.TREE, 3, 2),
    "two levels": Shape(Route.TREE, 4, 1, leaves=2),
    "ring of 2": Shape(Route.RING, 2, 2),
    "ring of 4": Shape(Route.RING, 4, 1),
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def formed(shape: Shape, seed: int, faults: Faults | None = None, **parameters) -> Job:
    """A job that all its ranks have joined. So many packets may be lost here that a peer seems dead for long."""
    patient = Timing(detection=10**12, ageing=10**13)
    simulation = Simulation(shape.nodes, seed, faults=faults, leaves=shape.leaves, timing=patient)
    job = Job(simulation, shape.route, members_of(shape.nodes, shape.ranks), **parameters)
    job.join()
    assert {int(job.answers(member)[0]["status"]) for member in job.members} == {Status.SUCCESS}
    return job


def values(job: Job, elements: int, datatype: DataType) -> list[np.ndarray]:
    """Whole numbers, of which every order of summing gives the same bits."""
    generator = np.random.default_rng(job.simulation.seed)
    return [generator.integers(-1000, 1000, elements).astype(datatype.numpy) for _ in job.members]


def check_results(results: list[np.ndarray], data: list[np.ndarray], operation: Operation) -> None:
    """All ranks have what numpy makes of it, bit for bit (invariants I1 and I2)."""
    reference = operation.oracle(np.array(data))
    for result in results:
        assert result.tobytes() == reference.tobytes()


def check_completions(job: Job, count: int) -> None:
    """One completion for each request, in order, all successful (I5)."""
    for member in job.members:
        assert [int(entry["wr_id"]) for entry in job.completions(member)] == list(range(count))
        assert {int(entry["status"]) for entry in job.completions(member)} <= {Status.SUCCESS}


def leave(job: Job) -> None:
    """All leave; nothing is left anywhere (I4)."""
    job.leave()
    for device in job.simulation.devices.values():
        assert device.engine.header["slots_used"] == 0
        assert device.engine.counters()["action_overflow"] == 0


@EVERY_SHAPE
@pytest.mark.parametrize("faults", [ROUGH, REORDERING, LOSSY], ids=["rough", "reordering", "lossy"])
@pytest.mark.parametrize("seed", range(3))
def test_several_requests_through_faults(shape: Shape, faults: Faults, seed: int) -> None:
    job = formed(shape, seed, faults)
    data = [values(job, elements, DATATYPES[0]) for elements in (600, 1, 0, 77)]
    results = [job.allreduce(message, Op.SUM) for message in data]
    job.finish(len(data))
    for message, result in zip(data, results, strict=True):
        check_results(result, message, OPERATIONS[0])
    check_completions(job, len(data))
    leave(job)


@EVERY_SHAPE
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@pytest.mark.parametrize("datatype", DATATYPES, ids=lambda datatype: datatype.name)
def test_operations_and_types(shape: Shape, operation: Operation, datatype: DataType) -> None:
    job = formed(shape, 7, ROUGH)
    data = values(job, 100, datatype)
    results = job.allreduce(data, operation.code)
    job.finish()
    check_results(results, data, operation)
    leave(job)


@EVERY_SHAPE
@pytest.mark.parametrize("elements", [0, 1, 15, 16, 17, 255, 256, 257])
def test_sizes_in_process_memory(shape: Shape, elements: int) -> None:
    job = formed(shape, elements, ROUGH)
    for member in job.members:
        job.device(member).register_process(job.queue(member))
    data = values(job, elements, DATATYPES[0])
    results = job.allreduce(data, Op.SUM, process_memory=True)
    job.finish()
    check_results(results, data, OPERATIONS[0])
    leave(job)


@given(seed=st.integers(0, 2**32), loss=st.floats(0, 0.3), duplication=st.floats(0, 0.5), jitter=st.integers(0, 10**8))
@settings(max_examples=25, deadline=None, print_blob=True)
@pytest.mark.parametrize("name", ["tree", "two levels", "ring of 4"])
def test_any_schedule(name: str, seed: int, loss: float, duplication: float, jitter: int) -> None:
    job = formed(SHAPES[name], seed, Faults(loss=loss, duplication=duplication, jitter=jitter), slots=4)
    data = values(job, 150, DATATYPES[0])
    results = job.allreduce(data, Op.SUM)
    job.finish()
    check_results(results, data, OPERATIONS[0])
    check_completions(job, 1)
    leave(job)


@pytest.mark.parametrize("first", [2**32 - 1, 2**32 - 5, 2**31 - 5])
@pytest.mark.parametrize("name", ["one node", "two levels", "ring of 4"])
def test_positions_wrap(name: str, first: int) -> None:
    shape = SHAPES[name]
    simulation = Simulation(shape.nodes, 3, faults=ROUGH, leaves=shape.leaves)
    for device in simulation.devices.values():
        device.engine.header["first_position"] = first
    job = Job(simulation, shape.route, members_of(shape.nodes, shape.ranks), slots=4)
    job.join()
    data = values(job, 300, DATATYPES[0])
    results = job.allreduce(data, Op.SUM)
    job.finish()
    check_results(results, data, OPERATIONS[0])
    leave(job)


def test_same_seed_same_run() -> None:
    def run(seed: int) -> tuple:
        job = formed(SHAPES["tree"], seed, ROUGH)
        job.allreduce(values(job, 600, DATATYPES[0]), Op.SUM)
        job.finish()
        return job.simulation.now, sorted(job.simulation.sent.items())

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_two_jobs_share_the_devices() -> None:
    simulation = Simulation(3, 11, faults=ROUGH)
    members = members_of(3, 2)
    tree = Job(simulation, Route.TREE, members, jid=1)
    ring = Job(simulation, Route.RING, members, jid=2, key=99, first_queue=4)
    data = {}
    for job in (tree, ring):
        job.join()
        data[job.jid] = values(job, 300, DATATYPES[0])
    results = {job.jid: job.allreduce(data[job.jid], Op.SUM) for job in (tree, ring)}
    for job in (tree, ring):
        job.finish()
        check_results(results[job.jid], data[job.jid], OPERATIONS[0])
    leave(tree)
    ring.leave()
    assert not tree.records() + ring.records()


def test_two_communicators_used_in_opposite_order() -> None:
    """Rank 0 posts to the first job and then to the second, rank 1 the other way round; neither fits a window."""
    simulation = Simulation(1, 0)
    members = members_of(1, 2)
    jobs = [
        Job(simulation, Route.LOCAL, members, jid=1 + n, key=1 + n, first_queue=2 * n, slots=4, chunk=8)
        for n in range(2)
    ]
    for job in jobs:
        job.join()
    arrays = {(job.jid, m): (np.ones(64, "<f4"), np.zeros(64, "<f4")) for job in jobs for m in members}
    for first, member in enumerate(members):
        for job in (jobs[first], jobs[1 - first]):
            job.post(member, job.work_request(member, *arrays[job.jid, member], Op.SUM))
    for job in jobs:
        job.finish()
    assert all((result == 2).all() for _, result in arrays.values())


def test_memory_that_can_not_be_read_poisons_for_all() -> None:
    job = formed(SHAPES["tree"], 1)
    bad = Member(1, 0)
    data = values(job, 100, DATATYPES[0])
    results = [np.zeros_like(array) for array in data]
    for member, source, result in zip(job.members, data, results, strict=True):
        wqe = job.work_request(member, source, result, Op.SUM)
        if member == bad:
            job.device(bad).register_process(job.queue(bad))
            wqe["source_lkey"] = abi.LKEY_PROCESS
            wqe["address"]["source"] = 4096  # nothing is there
        job.post(member, wqe)
    job.finish()
    statuses = {int(job.completions(member)[0]["status"]) for member in job.members}
    assert statuses == {Status.LOCAL_PROTECTION_ERROR}
    again = job.allreduce(data, Op.SUM)
    job.finish(2)
    check_results(again, data, OPERATIONS[0])
