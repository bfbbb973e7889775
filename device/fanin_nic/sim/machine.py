"""One device under exploration: its states are numbered, and each event in each state happens once.

A device is deterministic and sees nothing but its own state and the event, so what an event does to a state is computed
by the real engine at the first time and looked up ever after.

Time stands still. A timer is an event of its own, which may happen at any moment; fields that hold times or learnt
intervals, and counters of repetitions, are set back after each event, so that states that differ only in them are one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fanin_nic.engine.tables import JobState, Leave
from fanin_nic.sim.device import Device, Packet, StrayWrite
from fanin_nic.sim.instances import World
from fanin_nic.sim.invariants import BrokenInvariant
from fanin_nic.sim.job import LEAVE_TAG, Member
from fanin_wire import abi

FREE, ABORTED = JobState.FREE, JobState.ABORTED
LATER = 2**62
# Events: packets by their number, and these; a rank goes on by RANK - rank, dies by DEATH - rank, and gives up waiting
# to join by PATIENCE - rank; the children of a bitmap have been silent for long by SILENCE - bitmap.
TIMER = -1
RANK, DEATH, PATIENCE, SILENCE, AGEING = -2, -1_000, -2_000, -3_000, -1_000_000
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


# How far a rank is: which incarnation of the job, steps taken in it (0 before the JOIN), completions in it, and why it
# has failed. A rank of the last incarnation + 1 has gone.
PROGRESS = np.dtype([("incarnation", "u1"), ("step", "u1"), ("completed", "u1"), ("failed", "u1")])


class Machine:
    """A device with its ranks. A rank's program, for each incarnation of the job: join, post each message, leave when
    all are complete, or have failed. One whose JOIN is refused as the incarnation before is still about asks again.

    `packets` is shared by all machines of a world: packets by number, and numbers by packet.
    """

    def __init__(self, world: World, device: Device, packets: Packets) -> None:
        self.world, self.device, self.packets = world, device, packets
        self.members = [m for m in world.job.members if world.job.device(m) is device]
        node = self.members[0].node if self.members else 0
        self.memory = world.memory[node] if self.members else np.zeros(0, np.uint8)
        self.progress = np.zeros(len(self.members), PROGRESS)
        self.messages = len(world.instance.messages)
        self._live = device.engine.arena[: int(device.engine.header["region_offset"])]
        self._payload = device.engine.tables["payload"]
        self._numbers: dict[bytes, int] = {}
        self.states: list[bytes] = []
        self.done: list[bool] = []  # by state: the job is over and forgotten here
        self.ready: list[tuple[int, ...]] = []  # by state: events of ranks that may happen
        self.mortal: list[tuple[int, ...]] = []  # by state: deaths of ranks that may happen
        self.waiting: list[tuple[tuple[int, int], ...]] = []  # by state: ranks that wait to join, in which incarnation
        self.furthest: list[int] = []  # by state: the latest incarnation of a rank
        self.jobs: list[tuple[int, int, bool]] = []  # by state: state of the job, its key, whether it repeats LEAVE
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
            elif event == AGEING:
                sent = self._age(now)
            elif event <= SILENCE:
                sent = self._fall_silent(SILENCE - event)
            elif event <= PATIENCE:
                sent = self._give_up(PATIENCE - event, now)
            elif event <= DEATH:
                sent = self._end_rank(DEATH - event, now)
            else:
                sent = self._advance_rank(RANK - event, now)
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
        header, tables = self.device.engine.header, self.device.engine.tables
        first = int(header["rto"])
        tables["jobs"]["deadline"] = 0
        header["rto"] = tables["jobs"]["rto"] = 0  # nothing has been answered for as long
        tables["slots"]["deadline"] = 0
        self.device.engine.tick(now)
        header["rto"] = first
        return self.device.perform()

    def _age(self, now: int) -> list[Packet]:
        """The job has not been heard of for long."""
        header, tables = self.device.engine.header, self.device.engine.tables
        ageing = int(header["ageing"])
        header["ageing"] = 0
        tables["children"]["heard"] = 0
        for name in ("heard", "heard_next", "heard_previous"):
            tables["jobs"][name] = 0
        self.device.engine.tick(now)
        header["ageing"] = ageing
        return self.device.perform()

    def _fall_silent(self, bitmap: int) -> list[Packet]:
        """Devices below have not been heard for long."""
        children = self.device.engine.tables["children"]
        for bit in range(bitmap.bit_length()):
            if bitmap >> bit & 1:
                children[bit]["heard"] = 0
        return []

    def _end_rank(self, index: int, now: int) -> list[Packet]:
        """The process of a rank dies."""
        self.progress[index] = (self.world.instance.incarnations, 0, 0, 0)
        self.device.engine.lose(self.world.job.queue(self.members[index]), now)
        return self.device.perform()

    def _give_up(self, index: int, now: int) -> list[Packet]:
        """A rank leaves before it has joined."""
        self.progress[index] = (self.progress[index]["incarnation"] + 1, 0, 0, 0)
        self.device.engine.leave(self.world.job.queue(self.members[index]), LEAVE_TAG, now)
        return self.device.perform()

    def _advance_rank(self, index: int, now: int) -> list[Packet]:
        member, progress = self.members[index], self.progress[index]
        job, step = self.world.job, int(progress["step"])
        progress["step"] += 1
        if step == 0:
            job.join_rank(member, key=job.key + int(progress["incarnation"]))
        elif step <= self.messages and not progress["failed"]:
            job.post(member, self.world.requests[member][self._number_of_message(progress, step - 1)])
        else:
            self.progress[index] = (progress["incarnation"] + 1, 0, 0, 0)
            self.device.engine.leave(job.queue(member), LEAVE_TAG, now)
        return self.device.perform()

    def _number_of_message(self, progress: np.void, place: int) -> int:
        return int(progress["incarnation"]) * self.messages + place

    def _may_advance(self, index: int, member: Member) -> bool:
        incarnation, step, completed, failed = (int(value) for value in self.progress[index])
        if self._has_gone(index):
            return False
        if step == 0:  # the device must have let go of the incarnation before
            return not incarnation or self._job_state() == FREE
        if failed:
            return completed == step - 1
        joined = self.device.engine.tables["queues"][self.world.job.queue(member)]["joined"]
        return bool(joined) if step <= self.messages else completed == self.messages

    def _has_gone(self, index: int) -> bool:
        return bool(self.progress[index]["incarnation"] == self.world.instance.incarnations)

    def _waiting_ranks(self) -> Iterator[tuple[int, int]]:
        """(the event that it gives up, incarnation) of each rank whose JOIN is not answered."""
        for index, member in enumerate(self.members):
            queue = self.device.engine.tables["queues"][self.world.job.queue(member)]
            if self.progress[index]["step"] == 1 and queue["job"] and not queue["joined"]:
                yield PATIENCE - index, int(self.progress[index]["incarnation"])

    def _may_die(self, index: int) -> bool:
        return self.progress[index]["step"] > 0 and not self._has_gone(index)

    def _job_state(self) -> int:
        return int(self.device.engine.tables["jobs"][0]["state"])

    # What must hold

    def _collect(self) -> None:
        """Check what the ranks were told and given, and how the job is."""
        for notice in self.device.notices:
            self._check_notice(notice)
        for completion in self.device.completions:
            self._check_completion(completion)
        self.device.notices.clear()
        self.device.completions.clear()
        for member in self.members:
            for result, reference in zip(self.world.results[member], self.world.references[member], strict=True):
                if not ((result == 0) | (result == reference)).all():
                    raise Violation(f"a wrong result: {result.tolist()} instead of {reference.tolist()}")
        job = self.device.engine.tables["jobs"][0]
        if job["state"] == ABORTED and job["status"] not in self.world.instance.failures:
            raise Violation(f"the job is aborted with {abi.Status(job['status']).name}")
        if job["state"] == FREE and self.device.engine.header["slots_used"]:
            raise Violation("slots are in use after the job has gone")

    def _index_of(self, queue: int) -> int:
        return next(i for i, member in enumerate(self.members) if self.world.job.queue(member) == queue)

    def _check_notice(self, notice: np.void) -> None:
        status = int(notice["status"])
        if status and status not in self.world.instance.failures:
            raise Violation(f"a rank is told {abi.Status(status).name}")
        index = self._index_of(notice["queue"])
        if status and self.progress[index]["step"]:
            self.progress[index]["failed"] = status

    def _check_completion(self, completion: np.void) -> None:
        index = self._index_of(completion["queue"])
        if self._has_gone(index):  # nobody is there any more
            return
        member, progress, status = self.members[index], self.progress[index], int(completion["status"])
        number = self._number_of_message(progress, int(progress["completed"]))
        progress["completed"] += 1
        if status and status not in self.world.instance.failures:
            raise Violation(f"a completion with {abi.Status(status).name}")
        if completion["wr_id"] != number:
            raise Violation(f"completion {number} is of request {completion['wr_id']}")
        if status:
            progress["failed"] = status
        elif (self.world.results[member][number] != self.world.references[member][number]).any():
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
            self.waiting.append(tuple(self._waiting_ranks()))
            self.furthest.append(max(self.progress["incarnation"], default=0))
            self.ready.append(tuple(RANK - i for i, m in enumerate(self.members) if self._may_advance(i, m)))
            self.mortal.append(tuple(DEATH - i for i in range(len(self.members)) if self._may_die(i)))
            job = self.device.engine.tables["jobs"][0]
            leaves = Leave.REPEATED in (job["parent_leave"], job["next_leave"])
            self.jobs.append((int(job["state"]), int(job["key"]), leaves))
        return number

    def _is_done(self) -> bool:
        """The ranks have left and the job is forgotten. A CONFIG that arrives after its job has ended makes a switch
        form it once more; that record goes by ageing, which some instances explore, and harms nobody until then."""
        instance = self.world.instance
        leftover = instance.from_join and not instance.ages and not self.members
        forgotten = self._job_state() == FREE or leftover
        return forgotten and all(self._has_gone(index) for index in range(len(self.members)))

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
            part[:] = np.frombuffer(saved, part.dtype, len(part), start)
            start += part.nbytes
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
