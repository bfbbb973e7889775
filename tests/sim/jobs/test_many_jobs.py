"""Many jobs on the same devices, some of them overlapping, used in different orders by different ranks."""

import random

import numpy as np
import pytest

from fanin_nic.engine.engine import Limits
from fanin_sim.fabric.simulation import SMALL_LIMITS, Simulation
from fanin_sim.fabric.topology import Topology
from fanin_sim.jobs.job import Job, Member, members_of
from fanin_sim.jobs.message import Message, order_independent
from fanin_wire.abi import Route
from fanin_wire.datatypes import datatype_by_name
from tests.sim.shapes import ROUGH, check_completions, check_results, joined

I64 = datatype_by_name("i64")


def message_of(job: Job, elements: int, seed: int = 0) -> Message:
    return Message("allreduce", order_independent(I64, "SUM", (len(job.members), elements), seed), len(job.members))


def test_two_routes_share_the_devices() -> None:
    simulation = Simulation(Topology.one_switch(3), 11, faults=ROUGH)
    members = members_of(3, 2)
    tree = joined(Job(simulation, Route.TREE, members, jid=1))
    ring = joined(Job(simulation, Route.RING, members, jid=2, key=99, first_queue=4))
    started = [(job, message_of(job, 300)) for job in (tree, ring)]
    results = [job.start(message) for job, message in started]
    for (job, message), result in zip(started, results, strict=True):
        job.finish()
        check_results(job, message, result)
    tree.leave()
    ring.leave()
    assert not tree.records() + ring.records()


def test_a_key_may_be_0() -> None:
    """A key is any number of 32 bits; 0 must not count as no job in the checks of slots."""
    simulation = Simulation(Topology.one_switch(2), 1)
    job = joined(Job(simulation, Route.TREE, members_of(2, 1), key=0))
    message = message_of(job, 300)
    result = job.start(message)
    job.finish()
    check_results(job, message, result)


def test_overlapping_groups_in_flight() -> None:
    """Jobs of all ranks, of each half, of a rank per node, and within a node all have messages under way."""
    simulation = Simulation(Topology.fan_out(2, 2), 5, faults=ROUGH, limits=SMALL_LIMITS._replace(jobs=8, slots=128))
    everyone = members_of(4, 2)
    groups = [
        (Route.TREE, everyone),
        (Route.TREE, [m for m in everyone if m.node < 2]),
        (Route.TREE, [m for m in everyone if m.node >= 2]),
        (Route.RING, [m for m in everyone if m.rank == 1]),
        (Route.LOCAL, [m for m in everyone if m.node == 3]),
    ]
    jobs = [
        joined(Job(simulation, route, group, jid=1 + n, key=7 + n, first_queue=2 * n))
        for n, (route, group) in enumerate(groups)
    ]
    started = [(job, message_of(job, 200, seed)) for seed in range(3) for job in jobs]
    results = [job.start(message, spread=3_000_000) for job, message in started]
    for job in jobs:
        job.finish(3)
        check_completions(job, 3)
    for (job, message), result in zip(started, results, strict=True):
        check_results(job, message, result)
    for job in jobs:
        job.leave()


@pytest.mark.parametrize("route", [Route.LOCAL, Route.TREE, Route.RING])
def test_two_communicators_used_in_opposite_order(route) -> None:
    """Rank 0 posts to the first job, then to the second, rank 1 inversely. Neither message fits into a window."""
    members = members_of(1, 2) if route == Route.LOCAL else members_of(2, 1)
    simulation = Simulation(Topology.one_switch(len(members)), 0)
    jobs = [
        joined(Job(simulation, route, members, jid=1 + n, key=1 + n, first_queue=2 * n, slots=4, chunk=8))
        for n in range(2)
    ]
    messages = [message_of(job, 64, n) for n, job in enumerate(jobs)]
    results = [[message.result(number) for number in range(2)] for message in messages]
    for number, member in enumerate(members):
        for n in (number, 1 - number):
            jobs[n].post(member, jobs[n].work_request(number, messages[n], results[n][number]))
        simulation.run_for(1_000_000)
    for job, message, result in zip(jobs, messages, results, strict=True):
        job.finish()
        check_results(job, message, result)


def test_200_operations_outstanding() -> None:
    """All operations of two jobs are posted before any packet moves. Each job completes its own in order."""
    limits = Limits(jobs=2, slots=32, queues=4, requests=256, regions=8, actions=512, max_chunk=256, min_lease=4)
    simulation = Simulation(Topology.one_switch(3), 9, faults=ROUGH, limits=limits)
    members = members_of(3, 1)
    jobs = [joined(Job(simulation, Route.TREE, members, jid=1 + n, key=1 + n, first_queue=n)) for n in range(2)]
    memory = {member: np.zeros((200, 20), "<i8") for member in members}
    sources = np.arange(3 * 200 * 20, dtype="<i8").reshape(3, 200, 20)
    for n in range(200):
        job = jobs[n % 2]
        message = Message("allreduce", sources[:, n], 3)
        for number, member in enumerate(members):
            wqe = job.work_request(number, message, memory[member][n])
            wqe["wr_id"] = wqe["mid"] = n // 2
            job.post(member, wqe)
    for job in jobs:
        job.finish(100)
        check_completions(job, 100)
    for member in members:
        np.testing.assert_array_equal(memory[member], sources.sum(axis=0))


@pytest.mark.parametrize("seed", range(5))
def test_persistent_requests_started_in_different_orders(seed: int) -> None:
    """Each persistent request has its own stream. Every rank may start them in a different order."""
    requests, rounds = 4, 3
    simulation = Simulation(Topology.one_switch(3), seed, faults=ROUGH)
    members = members_of(3, 2)
    jobs = [
        joined(Job(simulation, Route.TREE, members, jid=1 + n, key=1 + n, first_queue=2 * n, slots=4))
        for n in range(requests)
    ]
    messages = [message_of(job, 30, n) for n, job in enumerate(jobs)]
    results = [[message.result(number) for number in range(len(members))] for message in messages]
    for _ in range(rounds):
        for number, member in enumerate(members):
            for n in order_of(member, requests, seed):
                jobs[n].post(member, jobs[n].work_request(number, messages[n], results[n][number]))
        simulation.run_for(50_000)
    for job, message, result in zip(jobs, messages, results, strict=True):
        job.finish(rounds)
        check_results(job, message, result)


def order_of(member: Member, count: int, seed: int) -> list[int]:
    """An order of the numbers below `count` that differs from rank to rank."""
    order = list(range(count))
    random.Random(f"{seed} {member}").shuffle(order)
    return order
