"""Within one node no packet is sent, so a chunk may exceed a packet; a slot then takes several payload buffers."""

import pytest

from fanin_nic.engine.engine import Limits
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import Topology
from fanin_sim.jobs.job import Job, members_of
from fanin_sim.jobs.message import Message, order_dependent
from fanin_wire.abi import LOCAL_CHUNK, Route, Status
from fanin_wire.datatypes import datatype_by_name
from tests.sim.shapes import check_results, joined, leave

RANKS = 3
LIMITS = Limits(jobs=2, slots=512, queues=8, requests=8, regions=32, actions=512, max_chunk=1024, max_lease=512)
SPAN = LOCAL_CHUNK // LIMITS.max_chunk


def job_of(route: Route, nodes: int, **parameters) -> Job:
    topology = Topology.direct(1) if nodes == 1 else Topology.one_switch(nodes)
    simulation = Simulation(topology, 5, limits=LIMITS)
    return Job(simulation, route, members_of(nodes, RANKS), slots=8, chunk=LOCAL_CHUNK, **parameters)


@pytest.mark.parametrize("mode", ["none", "run", "shape"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_every_byte_of_every_segment(mode: str, dtype: str) -> None:
    """Includes ranks that wait for their turn, and partials that are twice as wide."""
    datatype = datatype_by_name(dtype)
    elements = 20 * LOCAL_CHUNK // datatype.itemsize + 3
    message = Message("allreduce", order_dependent(datatype, (RANKS, elements), 1), RANKS, datatype=datatype)
    job = joined(job_of(Route.LOCAL, 1, reproducible=mode))
    results = job.start(message, spread=1_000_000)
    job.finish()
    check_results(job, message, results)
    leave(job)


@pytest.mark.parametrize("mode", ["none", "run"])
def test_payloads_that_a_slot_takes(mode: str) -> None:
    job = joined(job_of(Route.LOCAL, 1, reproducible=mode))
    record = job.simulation.nics[0].engine.tables["jobs"][0]
    assert (record["slots"], record["span"], record["buffers"]) == (8, SPAN, SPAN)


def test_as_many_slots_as_there_is_room_for() -> None:
    job = job_of(Route.LOCAL, 1)
    job.slots = 256
    joined(job)
    assert job.simulation.nics[0].engine.tables["jobs"][0]["slots"] == LIMITS.slots // SPAN


def test_no_packet_has_such_a_chunk() -> None:
    job = job_of(Route.TREE, 2)
    job.join()
    assert {int(job.answers(member)[0]["status"]) for member in job.members} == {Status.INVALID_REQUEST}


def test_a_job_without_slots_gets_the_smallest_lease() -> None:
    """A slot takes many payload buffers here. A job of many ranks still forms on a small device."""
    limits = LIMITS._replace(slots=4 * SPAN, shared=1)
    simulation = Simulation(Topology.direct(1), 5, limits=limits)
    members = members_of(1, RANKS)
    job = joined(Job(simulation, Route.LOCAL, members, slots=64, chunk=LOCAL_CHUNK, reproducible="run"))
    assert simulation.nics[0].engine.tables["jobs"][0]["slots"] == 4
    leave(job)
