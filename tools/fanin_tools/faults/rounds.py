"""Rounds of real faults on a fabric of its own: a job reduces, something happens to it, and everybody gets an answer.

What a round demands of every rank is a right result or a named error; afterwards of all devices that they hold nothing.
A device that was killed is restarted, so that the next round has a whole fabric.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fanin import Communicator, FaninError
from fanin_tools import control
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.faults import looping_rank
from fanin_tools.faults.links import cut_super_packets, link_down, loss, lost
from fanin_tools.faults.ranks import Hanging, describe, job, socket_of, together
from fanin_tools.faults.victims import frozen, frozen_device, kill, kill_device, open_descriptors, process_of
from fanin_tools.job import job_file

NODES, RANKS = 3, 6
DETECTION_SECONDS = 1.0
ELEMENTS = 1 << 18  # of f32
REPEAT = 4
BRIEF = DETECTION_SECONDS / 5
ROUND_SECONDS = 30.0
RELEASE_SECONDS = 20.0


@dataclass
class Tally:
    """What has happened. errors: of ranks, by name; they are as it must be. The last three must be 0."""

    rounds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    results: int = 0
    packets_lost: int = 0
    wrong: int = 0
    hangs: int = 0
    leaks: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON and tables."""
        return dataclasses.asdict(self) | {"faults": dict(self.faults), "errors": dict(self.errors)}


class Rounds:
    """Rounds on one running fabric; `tally` counts."""

    def __init__(self, running: Running, seed: int) -> None:
        self.running, self.chance, self.tally = running, random.Random(seed), Tally()

    def play(self) -> None:
        """One round: a fault and a route by chance."""
        kinds = [*_FAULTS, *(_LINK_FAULTS if self.running.fabric.netns else ())]
        kind, route = self.chance.choice(kinds), self.chance.choice(("tree", "ring"))
        self.tally.rounds += 1
        self.tally.faults[kind] += 1
        try:
            if kind in _RANK_FAULTS:
                self._play_with_victim(kind, route)
            else:
                self._play_with_device(kind, route)
        except Hanging as error:
            self.tally.hangs += len(error.ranks)
        self._mend()
        self.tally.leaks += self._held()

    def _play_with_device(self, kind: str, route: str) -> None:
        with job(self.running, RANKS, route) as members:
            self._count(lambda rank: _reduce(members[rank]), range(RANKS), lambda: self._inflict(kind))

    def _inflict(self, kind: str) -> None:
        fault = (_FAULTS | _LINK_FAULTS)[kind]
        with fault(self.running, self.chance):
            time.sleep(BRIEF)
            if kind == "loss":
                time.sleep(BRIEF)
                self.tally.packets_lost += lost(self.running.fabric)

    def _play_with_victim(self, kind: str, route: str) -> None:
        """One rank is a process, which is killed or stopped."""
        victim = self.chance.randrange(RANKS)
        placement, description = describe(self.running, RANKS, route)
        path = job_file.write(self.running, description.to_dict())
        others = [rank for rank in range(RANKS) if rank != victim]
        command = [sys.executable, "-m", looping_rank.__name__, str(path), str(victim)]
        command += [socket_of(self.running, placement, victim), str(ELEMENTS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:

                def act(rank: int) -> int:
                    member = Communicator(description, rank, socket_of(self.running, placement, rank))
                    with contextlib.closing(member):
                        return _reduce(member, np.ones(ELEMENTS, "f4"), RANKS)

                self._count(act, others, lambda: _harm(kind, process))
            finally:
                process.kill()
                path.unlink(missing_ok=True)

    def _count(self, act: Callable[[int], int], ranks: Any, harm: Callable[[], None]) -> None:
        """All ranks act; meanwhile there is a fault. act: gives the number of wrong results."""
        thread = threading.Thread(target=harm)
        thread.start()
        try:
            outcomes = together(len(ranks), lambda index: act(ranks[index]), ROUND_SECONDS)
        finally:
            thread.join()
        for outcome in outcomes:
            if isinstance(outcome, FaninError):
                self.tally.errors[type(outcome).__name__] += 1
            else:
                self.tally.results += 1
                self.tally.wrong += outcome

    def _mend(self) -> None:
        """Restart what has died."""
        for name, process in self.running.state.processes().items():
            if not process.alive:
                lifecycle.restart(self.running.fabric.name, name, _silent)

    def _held(self) -> int:
        """Devices that still hold slots or jobs when all have left; a record without slots only tells late members."""
        end = time.monotonic() + RELEASE_SECONDS
        while (holding := sum(map(self._holds, self.running.fabric.daemons))) and time.monotonic() < end:
            time.sleep(0.05)
        return holding

    def _holds(self, device: Any) -> bool:
        try:
            status = control.query(self.running.state.socket(device.name))
        except ToolError:
            return True
        jobs = [job for job in status["jobs"] if job["state"] != "aborted" or job["slots"]]
        return bool(jobs or status["slots"]["used"] or status["slots"]["leased"])


def _reduce(member: Communicator, array: np.ndarray | None = None, expected: float | None = None) -> int:
    """Some allreduces; how many of them were wrong."""
    array = np.full(ELEMENTS, member.rank, "f4") if array is None else array
    expected = sum(range(member.size)) if expected is None else expected
    return sum(int(not (member.allreduce(array) == expected).all()) for _ in range(REPEAT))


def _harm(kind: str, process: subprocess.Popen[bytes]) -> None:
    """As soon as the rank has joined, and said so."""
    assert process.stdout is not None
    process.stdout.readline()
    identity = ProcessIdentity.of(process.pid)
    if kind == "rank killed":
        kill(identity)
    else:
        with frozen(identity):
            time.sleep(2 * DETECTION_SECONDS)


def _silent(text: str) -> None:
    """Progress that nobody looks at."""


@contextlib.contextmanager
def _killed(running: Running, device: str) -> Iterator[None]:
    kill_device(running, device)
    yield


@contextlib.contextmanager
def _frozen_for_long(running: Running, device: str) -> Iterator[None]:
    with frozen_device(running, device):
        time.sleep(3 * DETECTION_SECONDS)
        yield


def _nic(chance: random.Random) -> str:
    return f"nic{chance.randrange(NODES)}"


Fault = Callable[[Running, random.Random], contextlib.AbstractContextManager[None]]
_FAULTS: dict[str, Fault] = {
    "NIC killed": lambda running, chance: _killed(running, _nic(chance)),
    "switch killed": lambda running, chance: _killed(running, "switch"),
    "NIC stopped briefly": lambda running, chance: frozen_device(running, _nic(chance)),
    "switch stopped briefly": lambda running, chance: frozen_device(running, "switch"),
    "NIC stopped for long": lambda running, chance: _frozen_for_long(running, _nic(chance)),
    "rank killed": lambda running, chance: contextlib.nullcontext(),
    "rank stopped": lambda running, chance: contextlib.nullcontext(),
}
_RANK_FAULTS = ("rank killed", "rank stopped")
_LINK_FAULTS: dict[str, Fault] = {
    "loss": lambda running, chance: loss(running.fabric, chance.choice((10, 50, 200))),
    "link down briefly": lambda running, chance: link_down(running.fabric, _nic(chance)),
}


def run(seconds: float, seed: int) -> Tally:
    """Rounds for `seconds`, at least one, on a fabric that is brought up for them: in namespaces where this user may
    have them, else on loopback and without faults of links."""
    netns = os.geteuid() == 0 and all(shutil.which(tool) for tool in ("ip", "tc", "nft"))
    shape = Shape(NODES, RANKS // NODES, netns=netns, detection=DETECTION_SECONDS)
    running = lifecycle.up(Plan(f"faults-{os.getpid()}", shape), _silent)
    try:
        if netns:
            cut_super_packets(running.fabric)
        rounds, end = Rounds(running, seed), time.monotonic() + seconds
        before = {name: open_descriptors(process) for name, process in running.state.processes().items()}
        while not rounds.tally.rounds or time.monotonic() < end:
            rounds.play()
        time.sleep(BRIEF)
        for name, count in before.items():
            rounds.tally.leaks += max(0, open_descriptors(process_of(running, name)) - count)
        return rounds.tally
    finally:
        lifecycle.down(running.fabric.name)


if __name__ == "__main__":
    print(json.dumps(run(float(sys.argv[1]), int(sys.argv[2])).as_dict(), indent=1))
