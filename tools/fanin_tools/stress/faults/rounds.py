"""Rounds of real faults on a fabric of its own: a job reduces, something happens to it, and everybody gets an answer.

What a round demands of every rank is a right result or, where a member was lost, a named error; afterwards of all
devices that they hold nothing. A device that was killed is restarted, so that the next round has a whole fabric; one
that has ended by itself is a finding, and so is whatever else ends a part of a round. Each round has a seed of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from fanin import Communicator, FaninError
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.launch import job_file
from fanin_tools.stress.faults import looping_rank
from fanin_tools.stress.faults.fault_kinds import BRIEF, DETECTION_SECONDS, KINDS, NODES, Kind, is_of_rank
from fanin_tools.stress.faults.link_faults import cut_super_packets, lost
from fanin_tools.stress.faults.process_faults import frozen, kill
from fanin_tools.stress.faults.rank_threads import Hanging, describe, job, socket_of, together
from fanin_tools.stress.faults.reduction import Work, reduce
from fanin_tools.stress.faults.resource_leaks import Growth, holding
from fanin_tools.stress.faults.tally import Tally

RANKS = 6
MEBIBYTES = (16, 16, 16, 32, 64)  # of a message: most are short, so that there are many rounds
ROUND_SECONDS = 60.0
LONGEST_DELAY = 0.3  # s from the first request until the fault
DUE = {"PeerLost", "DeviceLost"}  # errors, where a member is lost
# What faults of links need beside programs, and how it is tried
RIGHTS = {
    "the right to make network namespaces": ("unshare", "--net", "true"),
    "nftables in the kernel": ("unshare", "--net", "nft", "list", "ruleset"),
}


class Rounds:
    """Rounds on one running fabric; `tally` counts."""

    def __init__(self, running: Running) -> None:
        self.running, self.tally = running, Tally()
        self._growth = Growth()
        self._killed: str | None = None  # device, by the fault of this round

    def play(self, seed: int) -> None:
        """One round: fault, route, length and the moment of the fault by chance."""
        chance = random.Random(seed)
        kind = chance.choice([kind for kind in KINDS if self.running.fabric.netns or not kind.is_of_link])
        route, elements = chance.choice(("tree", "ring")), chance.choice(MEBIBYTES) << 18
        delay = chance.random() * LONGEST_DELAY
        self.tally.begin(seed, f"{kind.name}, {route}, {elements >> 18} MiB", kind.name)
        self._killed = None
        play = self._with_victim if is_of_rank(kind) else self._with_device
        self._attempt(lambda: play(kind, route, elements, delay, chance))
        self._attempt(self._mend)
        self._attempt(self._look_after)

    def _attempt(self, part: Callable[[], None]) -> None:
        """A part of the round: what ends it is a finding, and the series goes on."""
        try:
            part()
        except Hanging as error:
            self.tally.hang(error.ranks)
        except Exception as error:
            self.tally.failure(error)

    def _with_device(self, kind: Kind, route: str, elements: int, delay: float, chance: random.Random) -> None:
        work = Work()
        with job(self.running, RANKS, route) as members:
            strike = self._striking(work, delay, lambda: self._harm(kind, chance))
            self._count(kind, lambda rank: work.do(lambda: reduce(members[rank], elements, work)), range(RANKS), strike)

    def _striking(self, work: Work, delay: float, harm: Callable[[], None]) -> Callable[[], None]:
        """`harm`, a moment after the ranks have begun."""

        def strike() -> None:
            work.wait_until_begun()
            time.sleep(delay)
            self.tally.met += work.is_under_way
            harm()

        return strike

    def _harm(self, kind: Kind, chance: random.Random) -> None:
        with kind.inflict(self.running, chance) as self._killed:
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

        work = Work()

        def act(rank: int) -> int:
            with contextlib.closing(Communicator(description, rank, sockets[rank])) as member:
                return reduce(member, elements, work, zeros=victim)

        others = [rank for rank in range(RANKS) if rank != victim]
        command = [sys.executable, "-m", looping_rank.__name__, str(path), str(victim), sockets[victim], str(elements)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                strike = self._striking(work, delay, lambda: _harm_process(kind, process))
                self._count(kind, lambda rank: work.do(lambda: act(rank)), others, strike)
            finally:
                process.kill()
                path.unlink(missing_ok=True)

    def _count(self, kind: Kind, act: Callable[[int], int], ranks: Sequence[int], strike: Callable[[], None]) -> None:
        """All ranks act; meanwhile there is a fault. act: gives the number of wrong results."""
        thread = threading.Thread(target=self._attempt, args=(strike,))
        thread.start()
        try:
            outcomes = together(len(ranks), lambda index: act(ranks[index]), ROUND_SECONDS)
        finally:
            thread.join()
        for outcome in outcomes:
            if isinstance(outcome, FaninError):
                name = type(outcome).__name__
                self.tally.error(name, kind.is_fatal and name in DUE)
            else:
                self.tally.result(outcome)

    def _mend(self) -> None:
        """Restart what has died; only the device that the fault has killed may have."""
        dead = [name for name, process in self.running.state.processes().items() if not process.alive]
        for name in dead:
            if name != self._killed:
                self.tally.crash(name)
            lifecycle.restart(self.running.fabric.name, name, _silent)

    def _look_after(self) -> None:
        """What is left of the round in the devices."""
        self.tally.leak("slots", dict.fromkeys(holding(self.running), 1))
        files, memory = self._growth.look(self.running)
        self.tally.leak("files", files)
        self.tally.leak("memory", memory)


def _harm_process(kind: Kind, process: subprocess.Popen[bytes]) -> None:
    """When the rank has joined, and said so."""
    assert process.stdout is not None
    process.stdout.readline()
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
    tools = [tool for tool in ("ip", "tc", "nft", "unshare") if shutil.which(tool) is None]
    needs = (["root"] if os.geteuid() else []) + tools
    return ", ".join(needs) or next((right for right, trial in RIGHTS.items() if not _works(trial)), "")


def _works(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


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
