"""One device under exploration: its states are numbered, and each event in each state happens once.

A device is deterministic and sees nothing but its own state and the event, so what an event does to a state is computed
by the real engine at the first time and looked up ever after.

Time stands still. A timer is an event of its own, which may happen at any moment; fields that hold times or learnt
intervals, and counters of repetitions, are set back after each event, so that states that differ only in them are one.
"""

from __future__ import annotations

import numpy as np

from fanin_nic.engine.tables import JobState
from fanin_nic.sim.device import Device, Packet, StrayWrite
from fanin_nic.sim.instances import World
from fanin_nic.sim.invariants import BrokenInvariant
from fanin_nic.sim.job import LEAVE_TAG, Member
from fanin_wire import abi

FREE, ABORTED = JobState.FREE, JobState.ABORTED
LATER = 2**62
TIMER = -1  # event; packets are events by their number, ranks by -2 - rank
# Members that are set back after each event, with the value that they get.
JOB_CONSTANTS = {
    "retries": 0,
    "rto": 10**9,
    "reorder": 10**6,
    "srtt": 0,
    "rttvar": 0,
    "answered_at": 0,
    "deadline": LATER,
    "high_water": 0,
}
SLOT_CONSTANTS = {"retries": 0, "deadline": LATER}
ENGINE_CONSTANTS = {"next_deadline": LATER, "next_nak": 0, "slots_high_water": 0}


class Violation(AssertionError):
    """Something happened that must not; the message says what."""


class Machine:
    """A device with its ranks. A rank's program: join, post each message, leave when all are complete.

    `packets` is shared by all machines of a world: packets by number, and numbers by packet.
    """

    def __init__(self, world: World, device: Device, packets: Packets) -> None:
        self.world, self.device, self.packets = world, device, packets
        self.members = [m for m in world.job.members if world.job.device(m) is device]
        node = self.members[0].node if self.members else 0
        self.memory = world.memory[node] if self.members else np.zeros(0, np.uint8)
        self.progress = np.zeros(2 * len(self.members), np.uint8)  # steps taken, completions
        self.steps = len(world.instance.messages) + 2
        self._live = device.engine.arena[: int(device.engine.header["region_offset"])]
        self._payload = device.engine.tables["payload"]
        self._numbers: dict[bytes, int] = {}
        self.states: list[bytes] = []
        self.done: list[bool] = []  # by state: the job is over and forgotten here
        self.ready: list[tuple[int, ...]] = []  # by state: events of ranks that may happen
        self._known: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        self.initial = self._number()

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
        now = self.world.simulation.now
        try:
            if event >= 0:
                sent = self.device.receive(self.packets.by_number[event], now)
                self.device.engine.batch_end(now)
            elif event == TIMER:
                sent = self._expire(now)
            else:
                sent = self._advance_rank(-2 - event, now)
            sent += self._settle(now)
        except (BrokenInvariant, StrayWrite) as error:
            raise Violation(f"{type(error).__name__}: {error}") from error
        self._collect()
        return sent

    def _settle(self, now: int) -> list[Packet]:
        sent = self.device.perform()
        while self.device.engine.serve(now):
            sent += self.device.perform()
        return sent + self.device.perform()

    def _expire(self, now: int) -> list[Packet]:
        """All timers of the device."""
        tables = self.device.engine.tables
        tables["jobs"]["deadline"] = 0
        tables["jobs"]["rto"] = 0  # nothing has been answered for as long
        tables["slots"]["deadline"] = 0
        self.device.engine.tick(now)
        return self.device.perform()

    def _advance_rank(self, index: int, now: int) -> list[Packet]:
        member, step = self.members[index], int(self.progress[index])
        job, engine = self.world.job, self.device.engine
        self.progress[index] += 1
        if step == 0:
            job.join_rank(member)
        elif step < self.steps - 1:
            job.post(member, self.world.requests[member][step - 1])
        else:
            engine.leave(job.queue(member), LEAVE_TAG, now)
        return self.device.perform()

    def _may_advance(self, index: int, member: Member) -> bool:
        step = int(self.progress[index])
        if step == 0 or step == self.steps:
            return step == 0
        joined = self.device.engine.tables["queues"][self.world.job.queue(member)]["joined"]
        return bool(joined) if step < self.steps - 1 else self.progress[len(self.members) + index] == self.steps - 2

    # What must hold

    def _collect(self) -> None:
        """Check what the ranks were told and given, and how the job is."""
        for notice in self.device.notices:
            if notice["status"]:
                raise Violation(f"a rank is told {abi.Status(notice['status']).name}")
        for completion in self.device.completions:
            self._check_completion(completion)
        self.device.notices.clear()
        self.device.completions.clear()
        for member in self.members:
            for result, reference in zip(self.world.results[member], self.world.references[member], strict=True):
                if not ((result == 0) | (result == reference)).all():
                    raise Violation(f"a wrong result: {result.tolist()} instead of {reference.tolist()}")
        job = self.device.engine.tables["jobs"][0]
        if job["state"] == ABORTED:
            raise Violation(f"the job is aborted with {abi.Status(job['status']).name}")
        if job["state"] == FREE and self.device.engine.header["slots_used"]:
            raise Violation("slots are in use after the job has gone")

    def _check_completion(self, completion: np.void) -> None:
        index = next(i for i, m in enumerate(self.members) if self.world.job.queue(m) == completion["queue"])
        number = int(self.progress[len(self.members) + index])
        self.progress[len(self.members) + index] += 1
        if completion["status"]:
            raise Violation(f"a completion with {abi.Status(completion['status']).name}")
        if completion["wr_id"] != number:
            raise Violation(f"completion {number} is of request {completion['wr_id']}")
        member = self.members[index]
        if (self.world.results[member][number] != self.world.references[member][number]).any():
            raise Violation(f"request {number} is complete without its result")

    # States and numbers

    def _number(self) -> int:
        self._set_back()
        parts = (self._live, self._payload, self.memory, self.progress)
        saved = b"".join(part.tobytes() for part in parts) + self.device.watch.save()
        number = self._numbers.setdefault(saved, len(self.states))
        if number == len(self.states):
            self.states.append(saved)
            self.done.append(self._is_done())
            self.ready.append(tuple(-2 - i for i, m in enumerate(self.members) if self._may_advance(i, m)))
        return number

    def _is_done(self) -> bool:
        """The ranks have left and the job is forgotten. A CONFIG that arrives after its job has ended makes a switch
        form it once more; that record goes by ageing, which is not explored, and harms nobody until then."""
        free = self.device.engine.tables["jobs"][0]["state"] == FREE
        leftover = self.world.instance.from_join and not self.members
        return bool((free or leftover) and (self.progress[: len(self.members)] == self.steps).all())

    def _set_back(self) -> None:
        engine = self.device.engine
        for name, value in ENGINE_CONSTANTS.items():
            engine.header[name] = value
        job, slots = engine.tables["jobs"][:1], engine.tables["slots"]
        if job["state"][0] == FREE:  # what is left of a job that has gone does not matter
            job.view(np.uint8)[:] = 0
            slots.view(np.uint8)[:] = 0
            engine.tables["children"].view(np.uint8)[:] = 0
            self._payload[:] = 0
            return
        for name, value in JOB_CONSTANTS.items():
            job[name] = value
        for name, value in SLOT_CONSTANTS.items():
            slots[name] = value

    def _restore(self, saved: bytes) -> None:
        start = 0
        for part in (self._live, self._payload, self.memory, self.progress):
            part[:] = np.frombuffer(saved, np.uint8, len(part), start)
            start += len(part)
        self.device.watch.restore(saved[start:])


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
