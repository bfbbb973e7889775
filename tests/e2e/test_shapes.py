"""Jobs of every shape: one rank, one node, eight nodes, uneven nodes, ranks numbered across the nodes, several jobs."""

import numpy as np
import pytest
from msgspec.structs import replace

from fanin import Communicator, Job, JobNode
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import BOUND_S, Bench, assert_released
from tests.e2e.members import describe, job, run_ranks

NODES, ROOM = 8, 3
ELEMENTS = 70_001


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, ROOM))


def check(members: list[Communicator]) -> None:
    """Sum, in order, over all ranks."""
    size = len(members)

    def act(rank: int) -> np.ndarray:
        data = np.arange(ELEMENTS, dtype="i8") * (rank + 1)
        return members[rank].allreduce(data, out=data, timeout=BOUND_S)

    expected = np.arange(ELEMENTS, dtype="i8") * (size * (size + 1) // 2)
    for outcome in run_ranks(size, act):
        assert np.array_equal(outcome, expected)


@pytest.mark.parametrize(
    ("size", "route"),
    [
        (1, "local"),
        (3, "local"),
        (2, "tree"),
        (2, "ring"),
        (3, "ring"),
        (8, "tree"),
        (8, "ring"),
        (11, "tree"),
        (11, "ring"),
        (24, "tree"),
    ],
)
def test_job_of(running: Running, size: int, route: str) -> None:
    with job(running, size, route) as members:
        check(members)
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_ranks_numbered_across_nodes_in_any_order(running: Running, route: str) -> None:
    """Rank bits follow the list of a node, node bits the list of nodes, whatever the ranks and addresses are."""
    _, described = describe(running, 6, route)
    addresses = [nic.address for nic in running.fabric.nics]
    sockets = {nic.address: str(running.state.socket(nic.name)) for nic in running.fabric.nics}
    above = described.nodes[0].switches
    ranks = {5: (0, 3), 1: (1, 4, 5), 7: (2,)}
    nodes = tuple(JobNode(addresses[node], members, above) for node, members in ranks.items())
    mixed = replace(described, nodes=nodes)

    def join(rank: int) -> Communicator:
        return Communicator(mixed, rank, sockets[mixed.nodes[mixed.node_of(rank)].address], timeout=BOUND_S)

    members = run_ranks(6, join)
    check(members)
    run_ranks(6, lambda rank: members[rank].close())
    assert_released(running)


def test_tree_of_one_node_is_local(running: Running) -> None:
    """A job file may say tree: with all ranks on one node nothing leaves it anyway."""
    (switch,) = running.fabric.switches
    nic = running.fabric.nics[0]
    node = {"address": nic.address, "ranks": [0, 1], "switches": [switch.address], "ring": None}
    alone = Job.from_dict({"jid": 1, "key": 1, "route": "tree", "nodes": [node]})
    socket = str(running.state.socket(nic.name))
    members = run_ranks(2, lambda rank: Communicator(alone, rank, socket, timeout=BOUND_S))
    check(members)
    assert members[0].status()["route"] == "local"
    run_ranks(2, lambda rank: members[rank].close())


def test_jobs_in_turn_on_the_same_queues(running: Running) -> None:
    for turn in range(5):
        with job(running, 8, ("tree", "ring")[turn % 2]) as members:
            check(members)
    assert_released(running)


def test_two_communicators_used_in_opposite_order(running: Running) -> None:
    with job(running, 8, "tree") as first, job(running, 8, "ring") as second:

        def act(rank: int) -> bool:
            order = (first, second) if rank % 2 else (second, first)
            requests = [members[rank].iallreduce(np.full(200_000, rank, "i4")) for members in order for _ in range(3)]
            return all((request.wait(BOUND_S) == sum(range(8))).all() for request in requests)

        assert run_ranks(8, act) == [True] * 8
