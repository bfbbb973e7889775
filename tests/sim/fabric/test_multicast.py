"""Results by multicast: each switch sends each result once; lost results are sent again one by one."""

import numpy as np
import pytest

from fanin_sim.fabric.links import Faults
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import Topology
from fanin_sim.jobs.job import Job, members_of
from fanin_wire.abi import Op, Route
from fanin_wire.fields import Opcode

POSITIONS, CHUNK = 100, 64
TOPOLOGIES = [Topology.one_switch(4), Topology.leaves(8, 2), Topology.leaves(7, 3)]


def run(topology: Topology, faults: Faults | None = None, multicast: bool = True) -> Simulation:
    simulation = Simulation(topology, 1, faults=faults, multicast=multicast)
    job = Job(simulation, Route.TREE, members_of(topology.nodes, 2), chunk=CHUNK, slots=16)
    job.join()
    simulation.run_for(1_000_000)  # the invitations arrive
    simulation.reset_traffic()
    data = [np.full(POSITIONS * CHUNK // 4, 1 + index, "<f4") for index in range(len(job.members))]
    results = job.allreduce(data, Op.SUM)
    job.finish()
    assert all((result == sum(array[0] for array in data)).all() for result in results)
    return simulation


def results_by_destination(simulation: Simulation) -> dict[int, int]:
    return {to: number for (_, to, opcode), number in simulation.sent.items() if opcode == Opcode.RESULT}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_each_switch_sends_each_result_once(topology: Topology) -> None:
    simulation = run(topology)
    assert results_by_destination(simulation) == {switch.group: POSITIONS for switch in simulation.switches}
    assert simulation.total(Opcode.PROBE) == 0


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_without_multicast_each_child_gets_its_own_result(topology: Topology) -> None:
    simulation = run(topology, multicast=False)
    children = {device.address for device in simulation.vertices} - {simulation.switches[0].address}
    assert results_by_destination(simulation) == dict.fromkeys(children, POSITIONS)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_lost_result_is_sent_again_to_its_receiver_alone(topology: Topology) -> None:
    simulation = run(topology, Faults(loss=0.03))
    found = results_by_destination(simulation)
    assert any(found.get(switch.group, 0) for switch in simulation.switches)
    assert any(found.get(nic.address, 0) for nic in simulation.nics)


@pytest.mark.parametrize("deaf", [0, 9])
def test_a_device_that_loses_its_group_costs_one_round_of_probes(deaf: int) -> None:
    """A NIC, or a switch below the top, leaves the group. After one round of PROBEs it gets its results by unicast."""
    topology = Topology.leaves(8, 2)
    simulation = Simulation(topology, 1, multicast=True)
    job = Job(simulation, Route.TREE, members_of(topology.nodes, 1), chunk=CHUNK, slots=16)
    job.join()
    simulation.run_for(1_000_000)

    def leave() -> None:
        simulation.group_members = {
            group: [v for v in all_of if v != deaf] for group, all_of in simulation.group_members.items()
        }

    simulation.call_later(200_000, leave)
    data = [np.full(40 * POSITIONS * CHUNK // 4, 1, "<f4") for _ in job.members]
    start, results = simulation.now, job.allreduce(data, Op.SUM)
    job.finish()
    assert all((result == len(data)).all() for result in results)
    vertex = simulation.vertices[deaf].address
    by_itself = sum(n for (_, to, opcode), n in simulation.sent.items() if (to, opcode) == (vertex, Opcode.RESULT))
    assert by_itself > 10 * POSITIONS  # the rest came by itself
    assert simulation.now - start < 1_000_000_000  # ns of virtual time; one question for each would be 40 seconds
