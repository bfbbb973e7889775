"""Rounds of real faults on a fabric of its own: a job reduces, something happens to it, and everybody gets an answer.

What a round demands of every rank is a right result or, where a member was lost, a named error; afterwards of all
devices that they hold nothing. A device that was killed is restarted, so that the next round has a whole fabric. Each
round has a seed of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fanin import Communicator, FaninError
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.faults import looping_rank
from fanin_tools.faults.kinds import BRIEF, DETECTION_SECONDS, KINDS, NODES, Kind, is_of_rank
from fanin_tools.faults.links import cut_super_packets, lost
from fanin_tools.faults.possessions import Growth, holding
from fanin_tools.faults.ranks import Hanging, describe, job, socket_of, together
from fanin_tools.faults.tally import Tally
from fanin_tools.faults.victims import frozen, kill
from fanin_tools.job import job_file

RANKS = 6
MEBIBYTES = (16, 16, 16, 32, 64)  # of a message: most are short, so that there are many rounds
REPEAT = 2
ROUND_SECONDS = 60.0
LONGEST_DELAY = 0.3  # s until the fault: anywhere in the first messages
PERIOD = 4093  # of the data, a prime: no segment is like another


class Rounds:
    """Rounds on one running fabric; `tally` counts."""

    def __init__(self, running: Running) -> None:
        self.running, self.tally = running, Tally()
        self._growth = Growth()

    def play(self, seed: int) -> None:
        """One round: fault, route, length and the moment of the fault by chance."""
        chance = random.Random(seed)
        kind = chance.choice([kind for kind in KINDS if self.running.fabric.netns or not kind.is_of_link])
        route, elements = chance.choice(("tree", "ring")), chance.choice(MEBIBYTES) << 18
        delay = chance.random() * LONGEST_DELAY
        self.tally.begin(seed, f"{kind.name}, {route}, {elements >> 18} MiB", kind.name)
        play = self._with_victim if is_of_rank(kind) else self._with_device
        try:
            play(kind, route, elements, delay, chance)
        except Hanging as error:
            self.tally.hang(error.ranks)
        self._mend()
        self._look_after()

    def _with_device(self, kind: Kind, route: str, elements: int, delay: float, chance: random.Random) -> None:
        with job(self.running, RANKS, route) as members:
            harm = functools.partial(self._harm, kind, delay, chance)
            self._count(kind, lambda rank: _reduce(members[rank], elements), range(RANKS), harm)

    def _harm(self, kind: Kind, delay: float, chance: random.Random) -> None:
        time.sleep(delay)
        with kind.inflict(self.running, chance):
            time.sleep(BRIEF)
            if kind.loses:
                time.sleep(BRIEF)
                self.tally.packets_lost += lost(self.running.fabric)

    def _with_victim(self, kind: Kind, route: str, elements: int, delay: float, chance: random.Random) -> None:
        """One rank is a process, which is killed or stopped."""
        victim = chance.randrange(RANKS)
        placement, description = describe(self.running, RANKS, route)
        path = job_file.write(self.running, description.to_dict())
        sockets = [socket_of(self.running, placement, rank) for rank in range(RANKS)]

        def act(rank: int) -> int:
            with contextlib.closing(Communicator(description, rank, sockets[rank])) as member:
                return _reduce(member, elements, zeros=victim)

        others = [rank for rank in range(RANKS) if rank != victim]
        command = [sys.executable, "-m", looping_rank.__name__, str(path), str(victim), sockets[victim], str(elements)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                self._count(kind, act, others, lambda: _harm_process(kind, process, delay))
            finally:
                process.kill()
                path.unlink(missing_ok=True)

    def _count(self, kind: Kind, act: Callable[[int], int], ranks: Sequence[int], harm: Callable[[], None]) -> None:
        """All ranks act; meanwhile there is a fault. act: gives the number of wrong results."""
        thread = threading.Thread(target=harm)
        thread.start()
        try:
            outcomes = together(len(ranks), lambda index: act(ranks[index]), ROUND_SECONDS)
        finally:
            thread.join()
        for outcome in outcomes:
            if isinstance(outcome, FaninError):
                self.tally.error(type(outcome).__name__, kind.is_fatal)
            else:
                self.tally.result(outcome)

    def _mend(self) -> None:
        """Restart what has died."""
        for name, process in self.running.state.processes().items():
            if not process.alive:
                lifecycle.restart(self.running.fabric.name, name, _silent)

    def _look_after(self) -> None:
        """What is left of the round in the devices."""
        self.tally.leak("slots", dict.fromkeys(holding(self.running), 1))
        files, memory = self._growth.look(self.running)
        self.tally.leak("files", files)
        self.tally.leak("memory", memory)


def _reduce(member: Communicator, elements: int, zeros: int | None = None) -> int:
    """Some allreduces; how many of them were wrong. zeros: a rank that brings other data, ones."""
    data = np.arange(elements, dtype="i4") % PERIOD
    shares = [rank + 1 for rank in range(member.size) if rank != zeros]
    expected = (data * sum(shares) + (zeros is not None)).astype("f4")
    array = (data * (member.rank + 1)).astype("f4")
    result = np.empty_like(array)
    return sum(int(not np.array_equal(member.allreduce(array, out=result), expected)) for _ in range(REPEAT))


def _harm_process(kind: Kind, process: subprocess.Popen[bytes], delay: float) -> None:
    """When the rank has joined, and said so, and a moment has passed."""
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay)
    identity = ProcessIdentity.of(process.pid)
    if kind.kills:
        kill(identity)
    else:
        with frozen(identity):
            time.sleep(2 * DETECTION_SECONDS)


def _silent(text: str) -> None:
    """Progress that nobody looks at."""


def lacking() -> str:
    """What this machine lacks for faults of links; "" if nothing."""
    tools = [tool for tool in ("ip", "tc", "nft") if shutil.which(tool) is None]
    needs = (["root"] if os.geteuid() else []) + tools
    return ", ".join(needs)


@contextlib.contextmanager
def fabric() -> Iterator[Running]:
    """A fabric for rounds: in namespaces where this user may have them, else on loopback."""
    netns = not lacking()
    shape = Shape(NODES, RANKS // NODES, netns=netns, detection=DETECTION_SECONDS)
    running = lifecycle.up(Plan(f"faults-{os.getpid()}", shape), _silent)
    try:
        if netns:
            cut_super_packets(running.fabric)
        yield running
    finally:
        lifecycle.down(running.fabric.name)


def run(seconds: float, seed: int) -> Tally:
    """Rounds with the seeds `seed`, `seed` + 1, ... for `seconds`, at least one, on a fabric of their own."""
    with fabric() as running:
        rounds, end = Rounds(running), time.monotonic() + seconds
        while not rounds.tally.rounds or time.monotonic() < end:
            rounds.play(seed + rounds.tally.rounds)
        return rounds.tally
