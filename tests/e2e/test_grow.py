"""A running job gains members, and others replace lost ones. Nobody is restarted."""

import queue
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin import Communicator, Job, JobNode, errors
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import kill_device
from tests.e2e.fabrics import Bench, assert_released, silent
from tests.e2e.members import across, errors_of, run_ranks
from tests.e2e.test_shrink import ELEMENTS, lose
from tests.waiting import BOUND_S, DETECTION_S

NODES = 4
SHORT_S = 1.0
Make = Callable[[Communicator, Any], Communicator]  # from a communicator and `invite`


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, 2, detection=DETECTION_S))


class Scene:
    """A job of a rank on each of the first nodes, and spares at others, which wait for an invitation."""

    def __init__(self, running: Running, ranks: int, spares: Sequence[int], route: str, folder: Path) -> None:
        described, sockets = across(running, [*range(ranks), *spares], "tree" if route == "auto" else route)
        self.spares = [JobNode(node.address, (), node.switches, node.ring) for node in described.nodes[ranks:]]
        self.sockets = {node.address: socket for node, socket in zip(described.nodes, sockets, strict=True)}
        job, sockets = across(running, range(ranks), route) if ranks > 1 else (self._alone(described, route), sockets)
        self.members = run_ranks(ranks, lambda rank: Communicator(job, rank, sockets[rank]))
        self.folder = folder
        self.invitations: queue.Queue[tuple[str, int, str]] = queue.Queue()

    def _alone(self, described: Job, route: str) -> Job:
        first = described.nodes[0]
        return Job(
            described.jid ^ 1, described.key, (JobNode(first.address, (0,), first.switches, first.ring),), "local"
        )

    def invite(self, job: Job, newcomers: Sequence[JobNode]) -> None:
        """One rank hands it over, as text."""
        for node in newcomers:
            for rank in node.ranks:
                self.invitations.put((job.to_text(), rank, node.address))

    def newcomer(self) -> Communicator:
        """A process to be, from its invitation on."""
        text, rank, address = self.invitations.get(timeout=BOUND_S)
        path = self.folder / f"job{rank}"
        path.write_text(text)
        return Communicator(Job.from_file(path), rank, self.sockets[address], timeout=BOUND_S)

    def outcomes(self, members: Sequence[Communicator], make: Make, newcomers: int) -> list[Any]:
        """Rank, size and route in the new job, or the error, of each member and then of each newcomer."""

        def act(index: int) -> Any:
            if index >= len(members):
                made = self.newcomer()
            else:
                made = make(members[index], self.invite if index == 0 else None)
            with made:
                total = made.allreduce(np.arange(ELEMENTS) + made.rank, timeout=BOUND_S)
                assert np.array_equal(total, np.arange(ELEMENTS) * made.size + sum(range(made.size)))
                return made.rank, made.size, made.job.chosen_route

        return run_ranks(len(members) + newcomers, act, BOUND_S)

    def close(self) -> None:
        run_ranks(len(self.members), lambda rank: self.members[rank].close())


@pytest.fixture
def scene(running: Running, tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    """At the end all is closed, and the devices hold nothing."""
    scenes = []

    def make(ranks: int, spares: Sequence[int], route: str) -> Scene:
        scenes.append(Scene(running, ranks, spares, route, tmp_path))
        return scenes[-1]

    yield make
    for each in scenes:
        each.close()
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_newcomers_get_the_ranks_that_are_named(scene: Callable[..., Scene], route: str) -> None:
    """The old job goes on beside the new one."""
    made = scene(3, [3, 0], route)
    nodes = [
        JobNode(spare.address, (rank,), spare.switches, spare.ring)
        for spare, rank in zip(made.spares, (1, 4), strict=True)
    ]
    found = made.outcomes(made.members, lambda member, invite: member.grow(nodes, invite), 2)
    assert [place[:2] for place in sorted(found)] == [(rank, 5) for rank in range(5)]
    assert [place[0] for place in found[:3]] == [0, 2, 3]
    assert {place[2] for place in found} == {route}
    assert errors_of(run_ranks(3, lambda rank: made.members[rank].barrier(timeout=BOUND_S))) == ["no error"] * 3


@pytest.mark.parametrize(("spare", "route"), [(0, "local"), (3, "tree")])
def test_job_within_a_node_grows(scene: Callable[..., Scene], spare: int, route: str) -> None:
    made = scene(1, [spare], "tree")
    node = made.spares[0]
    grown = [JobNode(node.address, (0,), node.switches, node.ring)]
    found = made.outcomes(made.members, lambda member, invite: member.grow(grown, invite), 1)
    assert found == [(1, 2, route), (0, 2, route)]


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_replacement_of_a_rank(scene: Callable[..., Scene], route: str) -> None:
    """The newcomer has its rank and its place in the ring; of two spares only one is needed."""
    made = scene(3, [3, 0], route)
    made.members[1].abort()
    left = [made.members[0], made.members[2]]
    run_ranks(2, lambda index: lose(left[index]))
    found = made.outcomes(left, lambda member, invite: member.replace(made.spares, invite), 1)
    assert found == [(0, 3, route), (2, 3, route), (1, 3, route)]
    assert made.invitations.empty()


def test_replacement_of_a_nic(scene: Callable[..., Scene], running: Running) -> None:
    made = scene(3, [3], "ring")
    kill_device(running, "nic2")
    left = made.members[:2]
    run_ranks(2, lambda index: lose(left[index]))
    found = made.outcomes(left, lambda member, invite: member.replace(made.spares, invite), 1)
    assert found == [(0, 3, "ring"), (1, 3, "ring"), (2, 3, "ring")]
    lifecycle.restart(running.fabric.name, "nic2", silent)


def test_too_few_spares(scene: Callable[..., Scene]) -> None:
    """The lowest lost rank gets it; the ranks behind the other one move up."""
    made = scene(4, [1], "tree")
    made.members[1].abort()
    made.members[2].abort()
    left = [made.members[0], made.members[3]]
    run_ranks(2, lambda index: lose(left[index]))
    found = made.outcomes(left, lambda member, invite: member.replace(made.spares, invite), 1)
    assert found == [(0, 3, "tree"), (2, 3, "tree"), (1, 3, "tree")]


def test_newcomer_that_does_not_come_is_named(scene: Callable[..., Scene]) -> None:
    """Then another is invited."""
    made = scene(2, [3, 2], "tree")
    nodes = [[JobNode(node.address, (1,), node.switches, node.ring)] for node in made.spares]
    found = run_ranks(2, lambda rank: made.members[rank].grow(nodes[0], timeout=SHORT_S))
    assert errors_of(found) == ["Timeout"] * 2
    assert {error.missing_ranks for error in found} == {(1,)}
    outcomes = made.outcomes(made.members, lambda member, invite: member.grow(nodes[1], invite), 1)
    assert outcomes == [(0, 3, "tree"), (2, 3, "tree"), (1, 3, "tree")]


def test_misuse_is_named(scene: Callable[..., Scene]) -> None:
    made = scene(2, [3], "tree")
    spare = made.spares[0]
    wrong = [
        ([], "there are no newcomers"),
        ([JobNode(spare.address, (), spare.switches)], "there are no newcomers"),
        ([JobNode(spare.address, (3,), spare.switches)], "rank is 3, but the new job has ranks 0 to 2"),
        ([JobNode(spare.address, (1, 1), spare.switches)], "two newcomers have rank 1"),
        ([JobNode(spare.address, (-1,), spare.switches)], "the rank of a newcomer"),
        ([JobNode("nowhere", (2,))], "is not an IPv4 address"),
        ([JobNode(spare.address, (2,))], "share no offloading switch"),
        (["10.0.0.1"], "newcomers are JobNodes"),
    ]
    for newcomers, words in wrong:
        with pytest.raises(errors.InvalidRequest, match=words):
            made.members[0].grow(newcomers)
    with pytest.raises(errors.InvalidRequest, match="a spare must have no ranks"):
        made.members[0].replace([JobNode(spare.address, (2,), spare.switches)])
    counts = [(0, 2), (1, 2)]
    assert [(member.rank, member.size) for member in made.members] == counts


def test_ranks_that_give_other_newcomers(scene: Callable[..., Scene]) -> None:
    made = scene(2, [3], "tree")
    spare = made.spares[0]
    nodes = [[JobNode(spare.address, (rank,), spare.switches, spare.ring)] for rank in (1, 2)]
    found = run_ranks(2, lambda rank: made.members[rank].grow(nodes[rank], timeout=SHORT_S))
    assert set(errors_of(found)) <= {"MembersMismatch", "Timeout", "InvalidRequest"}
    assert "MembersMismatch" in errors_of(found)
