"""The traffic of a run without faults: each payload byte as often as the algorithm says, and no PROBE."""

import numpy as np
import pytest

from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import Topology
from fanin_sim.jobs.job import Job, members_of
from fanin_wire.abi import Op, Route
from fanin_wire.fields import Opcode

CHUNK = 64
LEASE = 16


def run(route: Route, topology: Topology, ranks: int, positions: int) -> Job:
    job = Job(Simulation(topology, 0), route, members_of(topology.nodes, ranks), chunk=CHUNK, slots=LEASE)
    job.join()
    data = [np.full(positions * CHUNK // 4, 1 + index, "<f4") for index in range(len(job.members))]
    results = job.allreduce(data, Op.SUM)
    job.finish()
    assert all((result == sum(array[0] for array in data)).all() for result in results)
    return job


def check_no_repairs(job: Job) -> None:
    """No packet was asked for or sent again."""
    for opcode in (Opcode.PROBE, Opcode.NEED, Opcode.WAIT, Opcode.NAK, Opcode.ABORT):
        assert job.simulation.total(opcode) == 0
    assert all(device.engine.counters()["resent"] == 0 for device in job.simulation.vertices)


@pytest.mark.parametrize("nodes", [1, 2, 4, 8])
@pytest.mark.parametrize("ranks", [1, 3])
def test_tree_carries_the_message_once_up_and_once_down(nodes: int, ranks: int) -> None:
    positions = 100
    job = run(Route.TREE, Topology.one_switch(nodes), ranks, positions)
    simulation, (switch,) = job.simulation, job.simulation.switches
    for nic in simulation.nics:
        for link in ((nic.address, switch.address, Opcode.CONTRIBUTION), (switch.address, nic.address, Opcode.RESULT)):
            assert simulation.sent[link] == positions
            assert simulation.payload[link] == positions * CHUNK
    check_no_repairs(job)


def test_levels_carry_one_partial_each() -> None:
    job = run(Route.TREE, Topology.leaves(8, 2), 1, 50)
    top, *leaves = job.simulation.switches
    for leaf in leaves:
        assert job.simulation.sent[leaf.address, top.address, Opcode.CONTRIBUTION] == 50
        assert job.simulation.sent[top.address, leaf.address, Opcode.RESULT] == 50
    check_no_repairs(job)


@pytest.mark.parametrize("nodes", [2, 3, 4, 8])
def test_ring_carries_2_n_minus_1_over_n_messages_on_every_link(nodes: int) -> None:
    positions = 12 * nodes
    job = run(Route.RING, Topology.direct(nodes), 2, positions)
    nics = job.simulation.nics
    for index, nic in enumerate(nics):
        following = nics[(index + 1) % nodes].address
        data = [job.simulation.payload[nic.address, following, kind] for kind in (Opcode.CONTRIBUTION, Opcode.RESULT)]
        assert sum(data) * nodes == 2 * (nodes - 1) * positions * CHUNK
    check_no_repairs(job)


def test_node_sends_nothing() -> None:
    assert not run(Route.LOCAL, Topology.direct(1), 4, 100).simulation.sent


@pytest.mark.parametrize(("route", "nodes"), [(Route.LOCAL, 1), (Route.TREE, 4), (Route.RING, 4)])
def test_long_message_stays_within_its_lease(route: Route, nodes: int) -> None:
    job = run(route, Topology.one_switch(nodes), 2, 1000)
    for device in job.simulation.vertices:
        assert device.engine.header["slots_high_water"] <= LEASE
    for nic in job.simulation.nics:
        used = nic.engine.header["slots_high_water"]
        assert used <= 1 if route is Route.LOCAL else 0 < used <= LEASE // 2  # within one node nothing waits in a slot
