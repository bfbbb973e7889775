"""Who is left: what each rank concludes from what it has heard, and how the reports become one verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fanin import Job, JobNode, errors
from fanin.job.derived_jobs import remaining
from fanin.membership.survivor_agreement import GRACE, PAIRS, Known, SurvivorAgreement, known_of, order, pair_job

RING = Job(7, 11, tuple(JobNode(f"10.0.0.{node + 1}", (2 * node, 2 * node + 1)) for node in range(3)), "ring")
TREE = Job(7, 11, tuple(JobNode(node.address, node.ranks, ("10.0.1.1",)) for node in RING.nodes), "tree")
LEVELS = Job(
    7,
    11,
    tuple(JobNode(f"10.0.0.{node + 1}", (node,), (f"10.0.1.{node // 2 + 1}", "10.0.2.1")) for node in range(4)),
    "tree",
)
NOBODY: frozenset[int] = frozenset()


@pytest.mark.parametrize("job", [TREE, RING])
def test_beside_the_dead_and_elsewhere_the_same_are_suspects(job: Job) -> None:
    beside, elsewhere = known_of(job, 2, (3,)), known_of(job, 0, (2, 3))
    assert (beside.dead, elsewhere.dead) == ({3}, NOBODY)
    assert beside.suspects == elsewhere.suspects == {2, 3}


def test_suspects_are_all_below_the_child_of_the_top() -> None:
    beside, beyond = known_of(LEVELS, 0, (1,)), known_of(LEVELS, 3, (0, 1))
    assert beside.suspects == beyond.suspects == {0, 1}
    assert order(4, beside.suspects) == [2, 3, 0, 1]


def test_whoever_is_named_itself_has_lost_its_switch() -> None:
    known = known_of(TREE, 2, (0, 1, 2, 3, 4, 5))
    assert (known.dead, known.switch_lost) == (NOBODY, True)
    assert known.doubtful == NOBODY
    assert not known_of(TREE, 2, (4, 5)).switch_lost


def test_without_a_failure_nobody_is_a_suspect() -> None:
    assert known_of(TREE, 2, ()) == Known()


def test_pairs_go_from_nic_to_nic_or_stay_within_a_node() -> None:
    far, near = pair_job(TREE, "report", 2, 0), pair_job(TREE, "report", 2, 3)
    assert (far.chosen_route, [node.address for node in far.nodes]) == ("ring", ["10.0.0.1", "10.0.0.2"])
    assert (near.chosen_route, near.size) == ("local", 2)
    keys = {(job.jid, job.key) for job in (far, near, pair_job(TREE, "verdict", 2, 0), pair_job(TREE, "report", 0, 2))}
    assert len(keys) == 4


def test_the_remaining_are_renumbered_and_meet_only_those_of_their_mind() -> None:
    job = remaining(TREE, 1, (0, 1, 3, 4, 5), ring=False)
    assert [node.ranks for node in job.nodes] == [(0, 1), (2,), (3, 4)]
    assert job.chosen_route == "tree"
    others = [remaining(TREE, 1, (0, 1, 4, 5), False), remaining(TREE, 2, (0, 1, 3, 4, 5), False), TREE]
    assert len({(each.jid, each.key) for each in (job, *others)}) == 4


def test_without_the_switch_the_way_is_a_ring() -> None:
    assert remaining(TREE, 1, range(6), ring=True).chosen_route == "ring"
    assert remaining(TREE, 1, (4, 5), ring=True).chosen_route == "local"


class Meeting:
    """Pairs without devices: a pair is formed when both have come, or not within its time."""

    def __init__(self) -> None:
        self._come = threading.Condition()
        self._pairs: dict[tuple[int, int], dict[int, Any]] = {}

    def join(self, job: Job, place: int, timeout: float, meanwhile: Any) -> Pair:
        """As Communicator._child."""
        end = time.monotonic() + timeout
        with self._come:
            pair = self._pairs.setdefault((job.jid, job.key), {})
            pair[place] = threading.Event()
            self._come.notify_all()
            meanwhile()  # no join is done at once
            while len(pair) < 2:
                meanwhile()
                if not self._come.wait(0.01) and time.monotonic() > end:
                    raise errors.Timeout("the other rank has not come")
        return Pair(pair, place)


class Pair:
    """One end of a pair."""

    def __init__(self, pair: dict[Any, Any], place: int) -> None:
        self._pair, self._place = pair, place

    def broadcast(self, row: np.ndarray, root: int, timeout: float) -> np.ndarray:
        """The row of the root."""
        if self._place == root:
            self._pair["row"] = row.copy()
            self._pair[root].set()
        elif not self._pair[root].wait(timeout):
            raise errors.Timeout("no row")
        return self._pair["row"]

    def close(self) -> None:
        """Nothing to be given back."""


def take(
    job: Job, known: dict[int, Known], timeout: float = 20.0, late: Callable[[int], float] = lambda rank: 0.0
) -> dict[int, Any]:
    """What each rank of `known` gets: its verdict or its error. late: seconds after which a rank calls."""
    meeting = Meeting()

    def one(rank: int) -> Any:
        time.sleep(late(rank))
        try:
            return SurvivorAgreement(job, rank, known[rank], 1, meeting.join).take(timeout)
        except errors.FaninError as error:
            return error

    with ThreadPoolExecutor(len(known)) as pool:
        return dict(zip(known, pool.map(one, known), strict=True))


def test_mates_of_a_dead_rank_stay() -> None:
    known = {rank: known_of(TREE, rank, (3,) if rank == 2 else (2, 3)) for rank in (0, 1, 2, 4, 5)}
    assert {verdict.members for verdict in take(TREE, known).values()} == {(0, 1, 2, 4, 5)}


def test_dead_registrar_is_passed_over() -> None:
    known = {rank: known_of(RING, rank, (0, 1)) for rank in (2, 3, 4, 5)}
    assert {verdict.members for verdict in take(RING, known).values()} == {(2, 3, 4, 5)}


def test_lost_switch_is_told_to_those_who_have_not_heard_of_it() -> None:
    known = {rank: known_of(LEVELS, rank, (0, 1)) for rank in range(4)}  # ranks 0 and 1 have lost theirs
    verdicts = take(LEVELS, known)
    assert {(verdict.members, verdict.switch_lost) for verdict in verdicts.values()} == {((0, 1, 2, 3), True)}


def test_who_does_not_come_is_not_of_it() -> None:
    verdicts = take(RING, {rank: Known() for rank in (0, 1, 2, 3)}, timeout=1.0)
    assert {verdict.members for verdict in verdicts.values()} == {(0, 1, 2, 3)}


MANY = Job(7, 11, tuple(JobNode(f"10.0.0.{node + 1}", (node,), ("10.0.1.1",)) for node in range(PAIRS + 8)), "tree")
LAST = MANY.size - 1


def test_suspects_have_their_time_from_when_their_turn_comes() -> None:
    """More ranks than are asked at a time are late, and the suspect, who is asked last, comes after them."""
    known = {rank: known_of(MANY, rank, (LAST,)) for rank in range(MANY.size)}
    verdicts = take(MANY, known, late=lambda rank: (GRACE + 0.5 if rank else 0) + (0.5 if rank == LAST else 0))
    assert {verdict.members for verdict in verdicts.values()} == {tuple(range(MANY.size))}


def test_the_lost_do_not_take_the_turn_of_the_living() -> None:
    """All but rank 0 are suspects, and the only one of them that lives is asked last."""
    known = {rank: known_of(MANY, rank, tuple(range(1, MANY.size))) for rank in (0, LAST)}
    assert {verdict.members for verdict in take(MANY, known).values()} == {(0, LAST)}


def test_who_is_alone_is_told_so_in_bounded_time() -> None:
    (outcome,) = take(RING, {5: Known()}, timeout=0.5).values()
    assert isinstance(outcome, errors.Timeout)
