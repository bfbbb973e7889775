"""Links that take time: rate, queueing, propagation, forwarding, and counters of traffic."""

import numpy as np
import pytest

from fanin_sim.fabric.links import FRAMING, Faults, Link, Rate
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import Topology
from fanin_sim.jobs.job import Job, members_of
from fanin_sim.jobs.message import Message
from fanin_sim.scenario.report import traffic_by_level
from fanin_wire.abi import Route
from fanin_wire.fields import TRANSPORT_SIZE
from tests.sim.shapes import check_results, joined

GIGABIT = 10**9
CHUNK = 64
AT_ONCE = Faults(delay=0)


def packet(payload: int, jid: int = 7) -> bytes:
    """A packet on a link."""
    return bytes(16) + jid.to_bytes(4, "big") + bytes(TRANSPORT_SIZE - 20 + payload)


def test_framing_is_ethernet_ipv4_udp_and_icrc() -> None:
    preamble_and_gap, ethernet, ipv4, udp, icrc = 20, 18, 20, 8, 4
    assert preamble_and_gap + ethernet + ipv4 + udp + icrc == FRAMING


def test_packets_queue_on_a_link() -> None:
    link = Link(Rate(GIGABIT, delay=300))
    each = (packet(1000), packet(0))
    sizes = [8 * (len(data) + FRAMING) for data in each]  # ns at one bit a ns
    assert link.carry(each[0], 5000) == 5000 + sizes[0] + 300
    assert link.carry(each[1], 5001) == 5000 + sum(sizes) + 300
    assert link.carry(each[1], 90_000) == 90_000 + sizes[1] + 300
    assert link.wire == sum(sizes) // 8 + sizes[1] // 8
    assert link.packets == 3
    assert link.payload == {7: 1000}


def test_fractions_of_a_nanosecond_are_not_lost() -> None:
    link = Link(Rate(3 * 10**11))
    data = packet(1000)
    times = [link.carry(data, 0) for _ in range(1000)]
    assert times[-1] == pytest.approx(1000 * 8 * (len(data) + FRAMING) / 300, abs=1)


def allreduce(topology: Topology, route, elements: int, **parameters) -> Job:
    """A job that has reduced `elements` f32."""
    simulation = Simulation(topology, 0, faults=AT_ONCE, **parameters)
    job = joined(Job(simulation, route, members_of(topology.nodes, 1), chunk=CHUNK))
    simulation.reset_traffic()
    message = Message("allreduce", np.ones((topology.nodes, elements), "<f4"), topology.nodes)
    results = job.start(message)
    job.finish()
    check_results(job, message, results)
    return job


def test_a_tree_takes_the_time_of_its_slowest_link() -> None:
    """All data pass each NIC's link once in each direction: the time of these data and of the first packet."""
    elements = 100 * CHUNK // 4
    simulation = Simulation(Topology.one_switch(4), 0, faults=AT_ONCE, rate=Rate(GIGABIT, 50))
    job = joined(Job(simulation, Route.TREE, members_of(4, 1), chunk=CHUNK, slots=64))
    start = simulation.now
    job.start(Message("allreduce", np.ones((4, elements), "<f4"), 4))
    job.finish()
    each = 8 * (TRANSPORT_SIZE + CHUNK + FRAMING)
    assert simulation.now - start == 100 * each + 50 + each + 50


def test_packets_for_other_devices_are_forwarded() -> None:
    """A ring over a tree of switches: its packets pass two links or more, and their bytes count on each."""
    topology = Topology.fan_out(2, 2)
    positions = 12 * topology.nodes
    simulation = allreduce(topology, Route.RING, positions * CHUNK // 4, rate=Rate(GIGABIT, 100)).simulation
    lines = {(line.level, line.direction): line for line in traffic_by_level(simulation)}
    share = 2 * (topology.nodes - 1) * positions * CHUNK // topology.nodes
    assert {level for level, _ in lines} == {1, 2}
    for line in lines.values():  # of two nodes below a switch, one sends to outside and one receives from there
        assert line.payload.least == line.payload.most == share
    assert lines[2, "up"].links == topology.nodes
    assert lines[1, "up"].links == 2


def test_bytes_are_counted_without_a_rate_too() -> None:
    topology = Topology.fan_out(2, 2, 2)
    positions = 40
    simulation = allreduce(topology, Route.TREE, positions * CHUNK // 4).simulation
    lines = {(line.level, line.direction): line for line in traffic_by_level(simulation)}
    assert {place: line.links for place, line in lines.items()} == {
        (level, direction): 2**level for level in (1, 2, 3) for direction in ("down", "up")
    }
    for line in lines.values():
        assert line.packets == positions * line.links
        assert line.payload.median == positions * CHUNK
        assert line.wire.median == positions * (CHUNK + TRANSPORT_SIZE + FRAMING)
