"""A correct job beside hostile clients and packets, whose results must stay right to the last bit."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np

from fanin import Communicator, FaninError, Job
from fanin_sim.findings import Category
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import place
from fanin_tools.stress.tally import Tally, Work

ELEMENTS = 20_000
REPLY_SECONDS = 60.0  # of one operation, which hostile clients may slow down
FORK = multiprocessing.get_context("fork")


class ControlJob:
    """The ranks of one job, one on each node, as processes for the time of a `with` block. description: of the job."""

    def __init__(self, running: Running, tally: Tally) -> None:
        self._tally = tally
        placement = place(running.fabric, len(running.fabric.nics), "auto")
        self.description: dict[str, Any] = job_file.describe(running, placement)
        self._sockets = [running.state.socket(nic.name) for nic in placement.nics]
        self._ending, self._rounds, self._found = FORK.Event(), FORK.Value("q", 0), FORK.SimpleQueue()
        self._ranks = [FORK.Process(target=self._rank, args=(rank,)) for rank in range(placement.size)]

    def __enter__(self) -> ControlJob:
        for rank in self._ranks:
            rank.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for number, rank in enumerate(self._ranks):
            rank.join(2 * REPLY_SECONDS)
            if rank.exitcode != 0:
                rank.kill()
                how = "hangs" if rank.exitcode is None else f"ends with exit code {rank.exitcode}"
                self._tally.find(Category.OTHER, f"rank {number} of the control job {how}")
        while not self._found.empty():
            self._tally.find(Category.OTHER, self._found.get())
        self._tally.work[Work.CONTROL_ROUNDS] += self._rounds.value

    def _rank(self, rank: int) -> None:
        try:
            with Communicator(
                Job.from_dict(self.description), rank, self._sockets[rank], timeout=REPLY_SECONDS
            ) as member:
                number = 0
                while self._round(member, number):
                    number += 1
        except FaninError as error:
            self._found.put(f"the control job fails on rank {rank}: {error}")

    def _round(self, member: Communicator, number: int) -> bool:
        """Reduce and verify once. False when the job must end, on all ranks in the same round."""
        mine = whole_numbers(member.rank, number)
        mine[0] = self._ending.is_set()
        result = np.array(member.allreduce(mine, timeout=REPLY_SECONDS))
        expected = np.sum([whole_numbers(rank, number) for rank in range(member.size)], axis=0, dtype=np.int64)
        if not np.array_equal(result[1:], np.asarray(expected)[1:]):
            self._found.put(f"rank {member.rank} of the control job has a wrong result")
        if member.rank == 0:
            self._rounds.value += 1
        return int(result[0]) == 0


def whole_numbers(rank: int, number: int) -> np.ndarray:
    """A rank's contribution to a round: shape (ELEMENTS,), int64."""
    return np.random.default_rng([rank, number]).integers(-(2**20), 2**20, ELEMENTS, np.int64)
