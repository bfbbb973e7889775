"""Shapes of jobs for several tests, and functions that form, check and leave such a job."""

from typing import NamedTuple

import numpy as np

from fanin_nic.engine.engine import Timing
from fanin_sim.fabric.links import Faults
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import NONE, Topology
from fanin_sim.jobs.job import Job, members_of
from fanin_sim.jobs.message import Message
from fanin_wire import abi
from fanin_wire.abi import Route, Status

ROUGH = Faults(loss=0.1, duplication=0.1, jitter=200_000, read_jitter=50_000)
REORDERING = Faults(duplication=0.3, jitter=1_000_000)
LOSSY = Faults(loss=0.3)
PATIENT = Timing(detection=10**12, ageing=10**13)  # heavy loss may make a peer seem dead for long


class Shape(NamedTuple):
    """A route over all nodes of a fabric, with `ranks` ranks on each node."""

    route: abi.Route
    topology: Topology
    ranks: int


# The top has two nodes, a switch with one node, and a switch with a switch with two nodes.
UNEVEN = Topology(above=(NONE, 0, 0, 2), homes=(0, 1, 3, 3, 0))
# Below the top: two nodes, and two switches that do not offload, with three nodes and with one.
MIXED = Topology(above=(NONE, 0, 0), homes=(0, 1, 1, 1, 0, 2), plain=frozenset({1, 2}))
SHAPES = {
    "one rank": Shape(Route.LOCAL, Topology.direct(1), 1),
    "one node": Shape(Route.LOCAL, Topology.direct(1), 4),
    "tree": Shape(Route.TREE, Topology.one_switch(3), 2),
    "two levels": Shape(Route.TREE, Topology.leaves(4, 2), 1),
    "three levels": Shape(Route.TREE, Topology.fan_out(2, 2, 2), 1),
    "uneven tree": Shape(Route.TREE, UNEVEN, 2),
    "mixed tree": Shape(Route.TREE, MIXED, 2),
    "only plain leaves": Shape(Route.TREE, Topology.fan_out(2, 3, plain=(1, 2)), 1),
    "ring of 2": Shape(Route.RING, Topology.direct(2), 2),
    "ring of 4": Shape(Route.RING, Topology.direct(4), 1),
}


def simulation_of(shape: Shape, seed: int, faults: Faults | None = None, **parameters) -> Simulation:
    return Simulation(shape.topology, seed, faults=faults, timing=PATIENT, **parameters)


def formed(shape: Shape, seed: int, faults: Faults | None = None, **parameters) -> Job:
    members = members_of(shape.topology.nodes, shape.ranks)
    return joined(Job(simulation_of(shape, seed, faults), shape.route, members, **parameters))


def joined(job: Job) -> Job:
    """All ranks of a job join. Returns the job."""
    job.join()
    assert {int(job.answers(member)[0]["status"]) for member in job.members} == {Status.SUCCESS}
    return job


def check_results(job: Job, message: Message, results: list[np.ndarray]) -> None:
    """All ranks have the expected result, bit for bit (invariants I1 and I2)."""
    for number, (result, expected) in enumerate(zip(results, job.expected(message), strict=True)):
        assert result.tobytes() == expected.tobytes(), f"rank {number}"


def check_completions(job: Job, count: int) -> None:
    """Each request has one completion, in order; all are successful (I5)."""
    for member in job.members:
        assert [int(entry["wr_id"]) for entry in job.completions(member)] == list(range(count))
        assert {int(entry["status"]) for entry in job.completions(member)} <= {Status.SUCCESS}


def leave(job: Job) -> None:
    """All ranks leave. No slot stays in use (I4)."""
    job.leave()
    for device in job.simulation.vertices:
        assert device.engine.header["slots_used"] == 0
        assert device.engine.counters()["action_overflow"] == 0
