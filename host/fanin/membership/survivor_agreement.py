"""The survivors of a job that has lost a member agree on the members of the next one.

Each rank may have received a different report of the failure. A failure is named by bits, which get coarser with the
distance: ranks of the same node learn which process is dead, other nodes learn its node, and nodes beyond a switch
learn only that switch's child. So no rank can decide alone. One of the survivors, the *registrar*, takes a report of
each, and gives each the verdict. Both go through pair jobs of two ranks (NIC to NIC, or within a node), which need
neither the old job nor its switches.

The registrar is the first living rank of `order`, which is the same on all survivors of one failure. A pair whose
registrar is dead is lost within the detection time; then the next rank is asked. The verdict is the membership of the
new job, and part of its key: ranks with different verdicts never meet in one job.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from fanin.errors import FaninError, PeerLost, Timeout
from fanin.job import Job, JobNode
from fanin.job.derived_jobs import identity
from fanin.membership.member import progress_all

GRACE = 2.0  # seconds for ranks that another believes lost: a living rank has heard of the failure by then
MARGIN = 5.0  # seconds that a message between living ranks may take
PAIRS = 32  # at a time: a device has room for 64 jobs, and grants a client three quarters of them
PAIR_SLOTS = 8
UNKNOWN, DEAD = 0, 1  # of a rank, in a report


class Known(NamedTuple):
    """One rank's knowledge of a failure.

    dead: ranks of its own node whose processes have ended. suspects: all ranks that any survivor may believe lost.
    switch_lost: the device above this rank's node is lost; then the suspects are cut off, and none is believed dead.
    """

    dead: frozenset[int] = frozenset()
    suspects: frozenset[int] = frozenset()
    switch_lost: bool = False

    @property
    def doubtful(self) -> frozenset[int]:
        """Ranks that get less time than the others."""
        return frozenset() if self.switch_lost else self.suspects


class Verdict(NamedTuple):
    """The members of the new job, in order, and whether a switch of the old job's path is lost."""

    members: tuple[int, ...]
    switch_lost: bool


Join = Callable[[Job, int, float, Callable[[], None]], Any]  # gives a communicator


def known_of(job: Job, rank: int, lost: tuple[int, ...]) -> Known:
    """The knowledge of `rank`, to which an error with PEER_LOST has named `lost`."""
    mates = set(job.nodes[job.node_of(rank)].ranks)
    switch_lost = rank in lost  # all behind the device above are named: that device is lost
    dead = frozenset(lost) if set(lost) < mates and not switch_lost else frozenset()
    return Known(dead, frozenset(_widened(job, lost)), switch_lost)


def _widened(job: Job, lost: tuple[int, ...]) -> set[int]:
    """All ranks that any rank may believe lost: those of the nodes, or of the children of the top switch."""
    groups = [[node] for node in range(len(job.nodes))]
    if job.chosen_route == "tree":
        groups = [child.nodes for child in job.tree.children(job.tree.paths[0][-1])]
    ranks = [{rank for node in group for rank in job.nodes[node].ranks} for group in groups]
    return set().union(*(group for group in ranks if group & set(lost)))


def order(size: int, suspects: frozenset[int]) -> list[int]:
    """The ranks in the order in which they are asked to be registrar: suspects last."""
    return sorted(range(size), key=lambda rank: (rank in suspects, rank))


def pair_job(job: Job, step: str, registrar: int, other: int) -> Job:
    """A job of two ranks: 0 is `other`, 1 the registrar. Between nodes it is a ring, whose first node notices when the
    second one is dead."""
    jid, key = identity(job, f"{step} {registrar} {other}")
    first, second = (job.nodes[job.node_of(rank)].address for rank in (other, registrar))
    nodes = (JobNode(first, (0, 1)),) if first == second else (JobNode(first, (0,)), JobNode(second, (1,)))
    route = "local" if first == second else "ring"
    return Job(jid, key, nodes, route, job.chunk, PAIR_SLOTS)


class SurvivorAgreement:
    """One rank's part. join: makes a communicator of a job, as a rank of it, within so many seconds; calls the function
    meanwhile, whose exception ends the attempt. number: of the call, equal on all."""

    def __init__(self, job: Job, rank: int, known: Known, number: int, join: Join) -> None:
        self.job, self.rank, self.known, self._join = job, rank, known, join
        self._name = f"census {number}"
        self._decided = threading.Event()
        self._lock = threading.Lock()
        self._reports: dict[int, np.ndarray] = {}
        self._lost: set[int] = set()
        self._asked: dict[int, float] = {}  # since when the registrar waits for a rank

    def take(self, timeout: float) -> Verdict:
        """The verdict, as registrar or from one. Ranks that nobody believes lost have `timeout` seconds to come."""
        end = time.monotonic() + 2 * timeout
        for registrar in order(self.job.size, self.known.suspects):
            if registrar == self.rank:
                return self._register(timeout)
            if registrar in self.known.dead:
                continue
            patience = GRACE + MARGIN if registrar in self.known.doubtful else timeout
            left = end - time.monotonic()
            if left <= 0:
                break
            with contextlib.suppress(PeerLost, Timeout):  # the registrar is dead, or has gone on without this rank
                return self._ask(registrar, min(patience, left), timeout + GRACE + MARGIN)
        raise Timeout(
            "no other rank has taken a report: they are lost, have not called, or have gone on without this one"
        )

    # As a rank that asks

    def _ask(self, registrar: int, patience: float, longest: float) -> Verdict:
        self._tell(self._pair("report", registrar, self.rank), 0, self._report(), patience)
        row = self._tell(self._pair("verdict", registrar, self.rank), 0, np.empty(self.job.size + 1, "u1"), longest, 1)
        return _verdict(row)

    def _report(self) -> np.ndarray:
        row = np.full(self.job.size + 1, UNKNOWN, "u1")
        row[list(self.known.dead)] = DEAD
        row[-1] = self.known.switch_lost
        return row

    # As registrar

    def _register(self, timeout: float) -> Verdict:
        self._reports[self.rank] = self._report()
        others = [rank for rank in order(self.job.size, self.known.suspects) if rank != self.rank]
        with ThreadPoolExecutor(PAIRS) as pool:
            pending = [pool.submit(self._take_report, rank, timeout) for rank in others]
            self._wait(timeout)
            self._decided.set()
            for future in pending:
                future.result()
            row = self._decide()
            members = [rank for rank in others if row[rank]]
            given = [pool.submit(self._give_verdict, rank, row) for rank in members]
            for future in given:
                future.result()
        return _verdict(row)

    def _take_report(self, rank: int, timeout: float) -> None:
        with self._lock:
            self._asked[rank] = time.monotonic()
        try:
            pair, row = self._pair("report", self.rank, rank), np.empty(self.job.size + 1, "u1")
            report = self._tell(pair, 1, row, timeout, meanwhile=functools.partial(self._stop_waiting, rank))
            with self._lock:
                self._reports[rank] = report
        except (_Decided, FaninError):
            with self._lock:
                self._lost.add(rank)

    def _give_verdict(self, rank: int, row: np.ndarray) -> None:
        """A rank that does not take it can not join the new job, which then fails and names it."""
        try:
            self._tell(self._pair("verdict", self.rank, rank), 1, row, MARGIN, 1)
        except FaninError:
            return

    def _wait(self, timeout: float) -> None:
        """Until all that are expected have come, or `timeout` is over; suspects have GRACE from when their turn comes,
        unless a rank of their node has come, which knows the dead ones of its node."""
        start = time.monotonic()
        while (now := time.monotonic()) - start < timeout:
            with self._lock:
                missing = set(range(self.job.size)) - self._reports.keys() - self._lost - self._dead()
                doubtful = self._doubtful()
                patient = any(rank not in doubtful or now - self._asked.get(rank, now) <= GRACE for rank in missing)
            if not patient:
                return
            time.sleep(0.01)

    def _dead(self) -> set[int]:
        return {int(rank) for row in self._reports.values() for rank in np.flatnonzero(row[:-1] == DEAD)}

    def _doubtful(self) -> set[int]:
        """Suspects of whose nodes nobody has come."""
        heard = {self.job.node_of(rank) for rank in self._reports}
        return {rank for rank in self.known.doubtful if self.job.node_of(rank) not in heard}

    def _decide(self) -> np.ndarray:
        """A row with a 1 for each member; at the end, whether a switch is lost."""
        row = np.zeros(self.job.size + 1, "u1")
        row[list(self._reports)] = 1
        row[-1] = any(report[-1] for report in self._reports.values())
        return row

    # Pairs

    def _pair(self, step: str, registrar: int, other: int) -> Job:
        return pair_job(self.job, f"{self._name} {step}", registrar, other)

    def _tell(
        self,
        job: Job,
        place: int,
        row: np.ndarray,
        timeout: float,
        root: int = 0,
        meanwhile: Callable[[], None] = progress_all,
    ) -> np.ndarray:
        """One row from rank `root` of a pair to the other."""
        pair = self._join(job, place, timeout, meanwhile)
        try:
            return pair.broadcast(row, root, timeout)
        finally:
            pair.close()

    def _stop_waiting(self, rank: int) -> None:
        """For a report that will not count any more; or that of a suspect, while others wait for their turn."""
        with self._lock:
            others_wait = len(self._asked) < self.job.size - 1
            overdue = rank in self._doubtful() and time.monotonic() - self._asked[rank] > GRACE
        if self._decided.is_set() or (others_wait and overdue):
            raise _Decided
        progress_all()


class _Decided(Exception):
    """The registrar does not wait for this rank any more."""


def _verdict(row: np.ndarray) -> Verdict:
    return Verdict(tuple(int(rank) for rank in np.flatnonzero(row[:-1])), bool(row[-1]))
