"""The transition system of one device. Its states are numbered, and each event in each state is computed once.

A device is deterministic: its next state depends only on its state and the event. The real engine computes a transition
once; then it is looked up. Time stands still (see `time_abstraction`): a timer may expire at any moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fanin_nic.engine.records.tables import JobState, Leave
from fanin_sim.fabric.device import Device, Packet, StrayWrite
from fanin_sim.fabric.invariants import BrokenInvariant
from fanin_sim.fabric.placement import PARENT, RING_NEXT, RING_PREVIOUS
from fanin_sim.model_check import time_abstraction
from fanin_sim.model_check.instances import World
from fanin_sim.model_check.rank_programs import RankPrograms, Violation
from fanin_wire import abi

# Events are numbers. A packet that arrives: its number in the packet table. RANK - rank: the rank takes a step. DEATH -
# rank: it dies. JOIN_TIMEOUT - rank: it stops waiting for the answer to its JOIN. SILENCE - bitmap: silent neighbours.
TIMER = -1
RANK, DEATH, JOIN_TIMEOUT, SILENCE, AGEING = -2, -1_000, -2_000, -3_000, -1_000_000
UNANSWERED, CRASH, RESTART = -1_000_001, -1_000_002, -1_000_003  # of LEAVE; of the device
# incarnation: of the ranks, at the crash
CRASH_STATE = np.dtype([("is_gone", "u1"), ("crashes", "u1"), ("incarnation", "u1")])


class DeviceSummary(NamedTuple):
    """The part of a device's state that determines which events are possible.

    is_done: the job is over and forgotten here.
    is_gone: the device has crashed and not restarted.
    crashes: how often it has crashed.
    ready, killable: events of ranks that may take a step, or may die.
    waiting: (event, incarnation) of ranks that may stop waiting for the answer to a JOIN.
    latest_incarnation: the latest incarnation of any rank.
    job: state and key of the job.
    heard: bitmap of neighbours whose silence ends the job.
    leaving: bitmap of neighbours to which the device repeats LEAVE.
    lost: devices that were reported to its ranks as lost.
    """

    is_done: bool
    is_gone: bool
    crashes: int
    ready: tuple[int, ...]
    killable: tuple[int, ...]
    waiting: tuple[tuple[int, int], ...]
    latest_incarnation: int
    job: tuple[int, int]
    heard: int
    leaving: int
    lost: int


class DeviceModel:
    """A device with its ranks.

    packets: the packet table of all devices of an instance.
    states: the bytes of each state.
    summaries: the summary of each state.
    """

    def __init__(self, world: World, device: Device, packets: Packets) -> None:
        self.world, self.device, self.packets = world, device, packets
        self.ranks = RankPrograms(world, device)
        self.memory = world.memory[self.ranks.node] if self.ranks.members else np.zeros(0, np.uint8)
        self.crash_state = np.zeros(1, CRASH_STATE)
        self._live = device.engine.arena[: int(device.engine.header["region_offset"])]
        self._parts = (self._live, device.engine.tables["payload"], self.memory, self.ranks.progress, self.crash_state)
        self._numbers: dict[bytes, int] = {}
        self.states: list[bytes] = []
        self.summaries: list[DeviceSummary] = []
        self._known: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        self.initial = self._number()

    @property
    def is_nic(self) -> bool:
        return bool(self.ranks.members)

    def step(self, state: int, event: int) -> tuple[int, tuple[int, ...]]:
        """The state after an event, and the packets sent. Raises Violation."""
        found = self._known.get((state, event))
        if found is None:
            self._restore(self.states[state])
            sent = self._apply(event)
            found = self._number(), tuple(self.packets.number(packet) for packet in sent)
            self._known[state, event] = found
        return found

    # Transitions, computed by the real engine

    def _apply(self, event: int) -> list[Packet]:
        if event in (CRASH, RESTART):
            self._crash() if event == CRASH else self._restart()
            return []
        if self.crash_state[0]["is_gone"]:  # the packet is dropped
            return []
        now = self.world.simulation.now
        try:
            sent = self._deliver(event, now) + self._serve(now)
        except (BrokenInvariant, StrayWrite) as error:
            raise Violation(f"{type(error).__name__}: {error}") from error
        self.ranks.collect()
        self._check_job()
        return sent

    def _deliver(self, event: int, now: int) -> list[Packet]:
        if event >= 0:
            sent = self.device.receive(self.packets.by_number[event], now)
            self.device.engine.batch_end(now)
            return sent
        if event == TIMER:
            return time_abstraction.expire_timers(self.device, now)
        if event == AGEING:
            return time_abstraction.age_job(self.device, now)
        if event == UNANSWERED:
            return time_abstraction.abandon_leave(self.device, now)
        if event <= SILENCE:
            time_abstraction.silence_neighbours(self.device, SILENCE - event, below=not self.is_nic)
            return []
        if event <= JOIN_TIMEOUT:
            return self.ranks.give_up(JOIN_TIMEOUT - event, now)
        return self.ranks.die(DEATH - event, now) if event <= DEATH else self.ranks.advance(RANK - event, now)

    def _serve(self, now: int) -> list[Packet]:
        sent = self.device.perform()
        while self.device.engine.serve(now):
            sent += self.device.perform()
        return sent + self.device.perform()

    def _check_job(self) -> None:
        job = self.device.engine.tables["jobs"][0]
        if job["state"] == JobState.ABORTED and job["status"] not in self.world.instance.failures:
            raise Violation(f"the job is aborted with {abi.Status(job['status']).name}")
        if job["state"] == JobState.FREE and self.device.engine.header["slots_used"]:
            raise Violation("slots are in use after the job has gone")

    # Crash and restart

    def _crash(self) -> None:
        """The device crashes, with its ranks, and loses all its state."""
        crash_state, incarnations = self.crash_state.copy(), self.ranks.progress["incarnation"]
        incarnation = min(incarnations, default=0)
        self._restore(self.states[self.initial])
        self.ranks.remove_ranks()
        self.crash_state[0] = (1, crash_state[0]["crashes"] + 1, incarnation)

    def _restart(self) -> None:
        crash_state = self.crash_state[0]
        crash_state["is_gone"] = 0
        self.device.engine.header["boot_id"] += crash_state["crashes"]
        if self.world.instance.rejoins:
            self.ranks.restart_ranks(int(crash_state["incarnation"]))

    # States and numbers

    def _number(self) -> int:
        time_abstraction.canonicalize(self.device)
        saved = b"".join(part.tobytes() for part in self._parts) + self.device.watch.save()
        number = self._numbers.setdefault(saved, len(self.states))
        if number == len(self.states):
            self.states.append(saved)
            self.summaries.append(self._summary())
        return number

    def _summary(self) -> DeviceSummary:
        ranks, crash_state = range(len(self.ranks.members)), self.crash_state[0]
        job = self.device.engine.tables["jobs"][0]
        return DeviceSummary(
            is_done=bool(crash_state["is_gone"]) or self._is_done(),
            is_gone=bool(crash_state["is_gone"]),
            crashes=int(crash_state["crashes"]),
            ready=tuple(RANK - index for index in ranks if self.ranks.may_advance(index)),
            killable=tuple(DEATH - index for index in ranks if self.ranks.may_die(index)),
            waiting=tuple((JOIN_TIMEOUT - index, incarnation) for index, incarnation in self.ranks.waiting()),
            latest_incarnation=max(self.ranks.progress["incarnation"], default=0),
            job=(int(job["state"]), int(job["key"])),
            heard=self._heard(job),
            leaving=_bits(
                {PARENT: job["parent_leave"] == Leave.REPEATED, RING_NEXT: job["next_leave"] == Leave.REPEATED}
            ),
            lost=int(np.bitwise_or.reduce(self.ranks.progress["lost"], initial=0)),
        )

    def _heard(self, job: np.void) -> int:
        """The neighbours whose silence ends the job: below a switch all, of a NIC those of a job that runs or forms."""
        state, present = int(job["state"]), int(job["node_mask"]) & ~int(job["node_left"])
        if not self.is_nic:
            joined = int(job["node_joined"]) & ~int(job["node_left"])
            return joined if state in (JobState.JOINING, JobState.CONFIGURING, JobState.ACTIVE) else 0
        if state not in (JobState.CONFIGURING, JobState.ACTIVE):
            return 0
        in_ring = job["route"] == abi.Route.RING
        return _bits(
            {
                PARENT: job["has_parent"],
                RING_NEXT: in_ring,
                RING_PREVIOUS: in_ring and present and state == JobState.ACTIVE,
            }
        )

    def _is_done(self) -> bool:
        """Whether the ranks have left and the job is forgotten.

        A CONFIG that arrives after the end of its job makes a switch form it once more. Ageing frees that record, which
        only some instances include; until then it is harmless.
        """
        instance = self.world.instance
        leftover = instance.from_join and not instance.ages and not self.is_nic
        forgotten = self.device.engine.tables["jobs"][0]["state"] == JobState.FREE or leftover
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
    """All packets ever sent in an instance, each with a number."""

    def __init__(self) -> None:
        self.by_number: list[Packet] = []
        self._numbers: dict[Packet, int] = {}

    def number(self, packet: Packet) -> int:
        number = self._numbers.setdefault(packet, len(self.by_number))
        if number == len(self.by_number):
            self.by_number.append(packet)
        return number
