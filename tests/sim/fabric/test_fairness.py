"""Equal jobs share a link equally. Shares are counted in virtual time, so a seed always gives the same shares."""

import numpy as np
import pytest

from fanin_nic.engine.engine import Limits
from fanin_sim.fabric.links import Faults, Rate
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import Topology
from fanin_sim.jobs.job import Job, members_of
from fanin_sim.jobs.message import Message
from fanin_wire.abi import Route
from tests.sim.shapes import joined

CHUNK = 1024
ELEMENTS = 1000 * CHUNK // 4
NODES = 4
LIMITS = Limits(jobs=3, slots=192, queues=3, requests=16, regions=8, actions=1024, max_chunk=CHUNK, min_lease=4)
GIGABIT = Rate(10**9, 500)


def jobs_on(route, topology: Topology, count: int, seed: int, loss: float = 0.0) -> list[Job]:
    simulation = Simulation(topology, seed, faults=Faults(delay=0, loss=loss), rate=GIGABIT, limits=LIMITS)
    members = members_of(NODES, 1)
    return [
        joined(Job(simulation, route, members, jid=1 + n, key=1 + n, first_queue=n, slots=64, chunk=CHUNK))
        for n in range(count)
    ]


def start(job: Job) -> None:
    job.start(Message("allreduce", np.ones((NODES, ELEMENTS), "<f4"), NODES))


def carried(simulation: Simulation) -> dict[int, int]:
    """Payload bytes by job on the link from the first node to its switch."""
    (link,) = (link for ends, link in simulation.links.by_ends.items() if ends[0] == 0)
    return dict(link.payload)


def shares(jobs: list[Job], window: int) -> list[float]:
    """Each job's share of the payload bytes of the next `window` ns, in which no job may end. Jobs take turns of up to
    a window of segments each (here 32, 0.3 ms), so `window` must be much longer."""
    simulation = jobs[0].simulation
    before = carried(simulation)
    simulation.run_for(window)
    assert not any(job.completions(member) for job in jobs for member in job.members)
    after = carried(simulation)
    moved = [after[job.jid] - before.get(job.jid, 0) for job in jobs]
    return [bytes_moved / sum(moved) for bytes_moved in moved]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("route", [Route.TREE, Route.RING], ids=["tree", "ring"])
def test_two_equal_jobs_get_half_each(route, seed: int) -> None:
    jobs = jobs_on(route, Topology.one_switch(NODES), 2, seed)
    for job in jobs:
        start(job)
    for share in shares(jobs, 8_000_000):
        assert 0.45 <= share <= 0.55


@pytest.mark.parametrize("route", [Route.TREE, Route.RING], ids=["tree", "ring"])
def test_one_that_comes_later_gets_its_half_at_once(route) -> None:
    first, second = jobs_on(route, Topology.one_switch(NODES), 2, 0)
    start(first)
    first.simulation.run_for(1_000_000)
    start(second)
    first.simulation.run_for(500_000)
    for share in shares([first, second], 8_000_000):
        assert 0.45 <= share <= 0.55


def test_three_get_a_third_each() -> None:
    jobs = jobs_on(Route.TREE, Topology.fan_out(2, 2), 3, 0)
    for job in jobs:
        start(job)
    for share in shares(jobs, 12_000_000):
        assert 0.3 <= share <= 0.367


def test_both_end_and_neither_long_before_the_other() -> None:
    jobs = jobs_on(Route.TREE, Topology.one_switch(NODES), 2, 0)
    for job in jobs:
        start(job)
    alone = jobs_on(Route.TREE, Topology.one_switch(NODES), 1, 0)
    start(alone[0])
    alone[0].finish()
    jobs[0].finish()
    early = jobs[0].simulation.now
    jobs[1].finish()
    late = jobs[1].simulation.now
    assert late - early < (alone[0].simulation.now - 1_000_000) // 10
