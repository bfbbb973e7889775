"""One device under exploration: its states are numbered, and each event in each state happens once.

A device is deterministic and sees nothing but its own state and the event, so what an event does to a state is computed
by the real engine at the first time and looked up ever after. Time stands still (see `standstill`): a timer is an event
of its own, which may happen at any moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fanin_nic.engine.tables import JobState, Leave
from fanin_sim.model_check import time_abstraction
from fanin_sim.fabric.device import Device, Packet, StrayWrite
from fanin_sim.model_check.instances import World
from fanin_sim.fabric.invariants import BrokenInvariant
from fanin_sim.fabric.neighbours import ABOVE, NEXT, PREVIOUS
from fanin_sim.model_check.rank_programs import RankPrograms, Violation
from fanin_wire import abi

FREE, JOINING, CONFIGURING = JobState.FREE, JobState.JOINING, JobState.CONFIGURING
ACTIVE, ABORTED = JobState.ACTIVE, JobState.ABORTED
# Events: packets by their number, and these; a rank goes on by RANK - rank, dies by DEATH - rank, and gives up waiting
# to join by PATIENCE - rank; neighbours in a bitmap have been silent for long by SILENCE - bitmap.
TIMER = -1
RANK, DEATH, PATIENCE, SILENCE, AGEING = -2, -1_000, -2_000, -3_000, -1_000_000
UNANSWERED, CRASH, RETURN = -1_000_001, -1_000_002, -1_000_003  # LEAVE; of the device
LIFE = np.dtype([("is_gone", "u1"), ("crashes", "u1"), ("incarnation", "u1")])  # of the ranks, when it crashed


class Situation(NamedTuple):
    """What a state of a device means for the others. `ready`, `mortal`, `waiting`: events of ranks that may happen;
    `waiting` with the incarnation that each wants to join, `furthest` the latest of any rank. `job`: its state and key.
    `listens`, `leaving`: bitmaps of neighbours that it must hear, and to which it repeats LEAVE. `lost`: devices that
    its ranks were told are lost. is_done: the job is over and forgotten here."""

    is_done: bool
    is_gone: bool
    crashes: int
    ready: tuple[int, ...]
    mortal: tuple[int, ...]
    waiting: tuple[tuple[int, int], ...]
    furthest: int
    job: tuple[int, int]
    listens: int
    leaving: int
    lost: int


class Machine:
    """A device with its ranks. `packets` is shared by all machines of a world: packets by number, and numbers by
    packet. `situations`: by state."""

    def __init__(self, world: World, device: Device, packets: Packets) -> None:
        self.world, self.device, self.packets = world, device, packets
        self.ranks = RankPrograms(world, device)
        self.memory = world.memory[self.ranks.node] if self.ranks.members else np.zeros(0, np.uint8)
        self.life = np.zeros(1, LIFE)
        self._live = device.engine.arena[: int(device.engine.header["region_offset"])]
        self._parts = (self._live, device.engine.tables["payload"], self.memory, self.ranks.progress, self.life)
        self._numbers: dict[bytes, int] = {}
        self.states: list[bytes] = []
        self.situations: list[Situation] = []
        self._known: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        self.initial = self._number()

    @property
    def is_nic(self) -> bool:
        """Whether the device has ranks."""
        return bool(self.ranks.members)

    def step(self, state: int, event: int) -> tuple[int, tuple[int, ...]]:
        """The state after an event, and the packets sent. Violation if it must not be so."""
        found = self._known.get((state, event))
        if found is None:
            self._restore(self.states[state])
            sent = self._happen(event)
            found = self._number(), tuple(self.packets.number(packet) for packet in sent)
            self._known[state, event] = found
        return found

    # One event in the real engine

    def _happen(self, event: int) -> list[Packet]:
        if event in (CRASH, RETURN):
            self._crash() if event == CRASH else self._return()
            return []
        if self.life[0]["is_gone"]:  # nobody takes the packet
            return []
        now = self.world.simulation.now
        try:
            sent = self._give(event, now) + self._settle(now)
        except (BrokenInvariant, StrayWrite) as error:
            raise Violation(f"{type(error).__name__}: {error}") from error
        self.ranks.collect()
        self._check_job()
        return sent

    def _give(self, event: int, now: int) -> list[Packet]:
        if event >= 0:
            sent = self.device.receive(self.packets.by_number[event], now)
            self.device.engine.batch_end(now)
            return sent
        if event == TIMER:
            return standstill.expire(self.device, now)
        if event == AGEING:
            return standstill.age(self.device, now)
        if event == UNANSWERED:
            return standstill.give_up_leaving(self.device, now)
        if event <= SILENCE:
            standstill.fall_silent(self.device, SILENCE - event, below=not self.is_nic)
            return []
        if event <= PATIENCE:
            return self.ranks.give_up(PATIENCE - event, now)
        return self.ranks.die(DEATH - event, now) if event <= DEATH else self.ranks.advance(RANK - event, now)

    def _settle(self, now: int) -> list[Packet]:
        sent = self.device.perform()
        while self.device.engine.serve(now):
            sent += self.device.perform()
        return sent + self.device.perform()

    def _check_job(self) -> None:
        job = self.device.engine.tables["jobs"][0]
        if job["state"] == ABORTED and job["status"] not in self.world.instance.failures:
            raise Violation(f"the job is aborted with {abi.Status(job['status']).name}")
        if job["state"] == FREE and self.device.engine.header["slots_used"]:
            raise Violation("slots are in use after the job has gone")

    # The device goes and comes back

    def _crash(self) -> None:
        """The device is gone, with its ranks and all that it knew."""
        life, incarnations = self.life.copy(), self.ranks.progress["incarnation"]
        incarnation = min(incarnations, default=0)
        self._restore(self.states[self.initial])
        self.ranks.be_without_device()
        self.life[0] = (1, life[0]["crashes"] + 1, incarnation)

    def _return(self) -> None:
        """It comes back under another boot id."""
        life = self.life[0]
        life["is_gone"] = 0
        self.device.engine.header["boot_id"] += life["crashes"]
        if self.world.instance.rejoins:
            self.ranks.begin_anew(int(life["incarnation"]))

    # States and numbers

    def _number(self) -> int:
        standstill.set_back(self.device)
        saved = b"".join(part.tobytes() for part in self._parts) + self.device.watch.save()
        number = self._numbers.setdefault(saved, len(self.states))
        if number == len(self.states):
            self.states.append(saved)
            self.situations.append(self._situation())
        return number

    def _situation(self) -> Situation:
        ranks, life = range(len(self.ranks.members)), self.life[0]
        job = self.device.engine.tables["jobs"][0]
        return Situation(
            is_done=bool(life["is_gone"]) or self._is_done(),
            is_gone=bool(life["is_gone"]),
            crashes=int(life["crashes"]),
            ready=tuple(RANK - index for index in ranks if self.ranks.may_advance(index)),
            mortal=tuple(DEATH - index for index in ranks if self.ranks.may_die(index)),
            waiting=tuple((PATIENCE - index, incarnation) for index, incarnation in self.ranks.waiting()),
            furthest=max(self.ranks.progress["incarnation"], default=0),
            job=(int(job["state"]), int(job["key"])),
            listens=self._listens(job),
            leaving=_bits({ABOVE: job["parent_leave"] == Leave.REPEATED, NEXT: job["next_leave"] == Leave.REPEATED}),
            lost=int(np.bitwise_or.reduce(self.ranks.progress["lost"], initial=0)),
        )

    def _listens(self, job: np.void) -> int:
        """Neighbours whose silence ends the job: those below, or of a NIC that runs, or is about to join."""
        state, present = int(job["state"]), int(job["node_mask"]) & ~int(job["node_left"])
        if not self.is_nic:
            joined = int(job["node_joined"]) & ~int(job["node_left"])
            return joined if state in (JOINING, CONFIGURING, ACTIVE) else 0
        if state not in (CONFIGURING, ACTIVE):
            return 0
        in_ring = job["route"] == abi.Route.RING
        return _bits({ABOVE: job["has_parent"], NEXT: in_ring, PREVIOUS: in_ring and present and state == ACTIVE})

    def _is_done(self) -> bool:
        """The ranks have left and the job is forgotten. A CONFIG that arrives after its job has ended makes a switch
        form it once more; that record goes by ageing, which some instances explore, and harms nobody until then."""
        instance = self.world.instance
        leftover = instance.from_join and not instance.ages and not self.is_nic
        forgotten = self.device.engine.tables["jobs"][0]["state"] == FREE or leftover
        return forgotten and all(self.ranks.has_gone(index) for index in range(len(self.ranks.members)))

    def _restore(self, saved: bytes) -> None:
        start = 0
        for part in self._parts:
            part[:] = np.frombuffer(saved, part.dtype, len(part), start)
            start += part.nbytes
        self.device.watch.restore(saved[start:])


def _bits(holds: Mapping[int, int]) -> int:
    return sum(1 << bit for bit, does in holds.items() if does)


class Packets:
    """All packets ever sent in a world, each with a number."""

    def __init__(self) -> None:
        self.by_number: list[Packet] = []
        self._numbers: dict[Packet, int] = {}

    def number(self, packet: Packet) -> int:
        """Number of a packet."""
        number = self._numbers.setdefault(packet, len(self.by_number))
        if number == len(self.by_number):
            self.by_number.append(packet)
        return number
