"""Exhaustive search: every order in which packets arrive, are lost or are duplicated, timers expire, ranks act and die.

    python -m fanin_nic.sim.explorer [INSTANCE ...]

Searches the named instances (see `instances`; without a name all but the deep ones) and prints how many states there
were. If something can happen that must not, it prints the shortest way to it and exits with 1.

Safety is checked at every transition of a device (`machine`). Liveness: from every state that can be reached, a
continuation without further faults, in which timers expire when nothing else happens, must end with all requests
complete, all ranks gone and all devices empty.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from fanin_nic.engine.tables import JobState
from fanin_nic.sim.instances import DEEP_INSTANCES, INSTANCES, Instance, World
from fanin_nic.sim.machine import AGEING, DEATH, RANK, SILENCE, TIMER, Machine, Packets, Violation

LONGEST_CONTINUATION = 400  # rounds
FREE, ACTIVE, ABORTED = JobState.FREE, JobState.ACTIVE, JobState.ABORTED


class State(NamedTuple):
    """A state of the world: each device's, the packets on their way in order, and the faults still allowed.

    Packets and states of devices are numbers (see `machine`).
    """

    devices: tuple[int, ...]
    packets: tuple[int, ...]
    losses: int
    copies: int
    early_timers: int
    deaths: int


class Report(NamedTuple):
    """What a search has seen."""

    states: int
    transitions: int
    device_states: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.states} states, {self.transitions} transitions, "
            f"{self.device_states} device states, {self.seconds:.1f} s"
        )


class Explorer:
    """A breadth-first search of an instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.packets = Packets()
        self.world = World(instance)
        simulated = self.world.simulation
        self.machines = [Machine(self.world, device, self.packets) for device in simulated.devices.values()]
        self._index = {machine.device.address: n for n, machine in enumerate(self.machines)}
        self._good: set[tuple] = set()
        self.transitions = 0

    def run(self) -> Report:
        """Search everything. Raises Violation with the way to it."""
        begun = time.perf_counter()
        start = self.start()
        origins: dict[State, tuple[State, str] | None] = {start: None}
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            try:
                self.check_ends(state)
                for label, following in self.successors(state):
                    self.transitions += 1
                    if following not in origins:
                        origins[following] = state, label
                        waiting.append(following)
            except Violation as violation:
                raise Violation(f"{violation}\n{self._way(origins, state)}") from violation
        device_states = sum(len(machine.states) for machine in self.machines)
        return Report(len(origins), self.transitions, device_states, time.perf_counter() - begun)

    def start(self) -> State:
        """Where the search begins: nobody has joined, or, without `from_join`, all have and nothing is posted."""
        devices = tuple(machine.initial for machine in self.machines)
        packets: tuple[int, ...] = ()
        if not self.instance.from_join:
            first_step = [(n, RANK - r) for n, machine in enumerate(self.machines) for r in range(len(machine.members))]
            for number, event in first_step:
                devices, packets = self._event(devices, packets, number, event)
            while packets:
                devices, packets = self._deliver_all(devices, packets)
                if not packets and not self._all_joined(devices):
                    devices, packets = self._expire_all(devices)
        instance = self.instance
        return State(devices, packets, instance.losses, instance.copies, instance.early_timers, instance.deaths)

    def _all_joined(self, devices: tuple[int, ...]) -> bool:
        return all(
            len(machine.ready[state]) == len(machine.members)
            for machine, state in zip(self.machines, devices, strict=True)
        )

    # One step

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """Every state that may follow, with what has happened."""
        yield from self._packet_steps(state)
        yield from self._ends(state)
        for number, machine in enumerate(self.machines):
            for event in machine.ready[state.devices[number]]:
                yield f"rank {RANK - event} of device {number} goes on", self._after(state, number, event)
            if not state.packets:
                yield f"timers of device {number}", self._after(state, number, TIMER)
            elif state.early_timers:
                followed = self._after(state, number, TIMER)
                yield f"timers of device {number}, early", followed._replace(early_timers=state.early_timers - 1)

    def _ends(self, state: State) -> Iterator[tuple[str, State]]:
        """Ranks die or give up, jobs age."""
        for number, machine in enumerate(self.machines if state.deaths else []):
            for event in machine.mortal[state.devices[number]]:
                followed = self._after(state, number, event)
                yield f"rank {DEATH - event} of device {number} dies", followed._replace(deaths=state.deaths - 1)
        for number in self._aged(state.devices, state.packets):
            yield f"the job ages at device {number}", self._after(state, number, AGEING)
        for number, event in self._silent(state.devices, state.packets):
            yield f"NICs have been silent for device {number}", self._after(state, number, event)
        for number, event in self._impatient(state.devices):
            yield f"a rank of device {number} gives up joining", self._after(state, number, event)

    def _aged(self, devices: tuple[int, ...], packets: tuple[int, ...]) -> list[int]:
        """Devices on which a job may age when no packet is on its way: on switches those for whose incarnation no NIC
        speaks, and tombstones that have nothing more to say."""
        if packets or not self.instance.ages:
            return []
        now = zip(self.machines, devices, strict=True)
        jobs = [(bool(machine.members), *machine.jobs[state]) for machine, state in now]
        spoken = {key for is_nic, state, key, _ in jobs if is_nic and state != FREE}
        return [
            number
            for number, (is_nic, state, key, leaves) in enumerate(jobs)
            if (state == ABORTED and not leaves) or (state not in (FREE, ABORTED) and not is_nic and key not in spoken)
        ]

    def _silent(self, devices: tuple[int, ...], packets: tuple[int, ...]) -> list[tuple[int, int]]:
        """(switch, event) where the job runs and NICs that are its children speak for it no more: a late CONFIG of one
        that has gone on can form a job. Only with one switch, on which the bit of a NIC is its number."""
        if packets or self.instance.incarnations == 1:
            return []
        jobs = [machine.jobs[state] for machine, state in zip(self.machines, devices, strict=True)]
        *nics, (state, key, _) = jobs
        gone = sum(1 << bit for bit, (other, its_key, _) in enumerate(nics) if other == FREE or its_key != key)
        return [(len(nics), SILENCE - gone)] if state == ACTIVE and gone else []

    def _impatient(self, devices: tuple[int, ...]) -> list[tuple[int, int]]:
        """(device, event) of ranks that may give up waiting to join: others are dead or further. Ranks agree on
        incarnations among themselves, and their host does not wait for ever."""
        now = list(zip(self.machines, devices, strict=True))
        furthest = max(machine.furthest[state] for machine, state in now)
        waiting = [(n, *rank) for n, (machine, state) in enumerate(now) for rank in machine.waiting[state]]
        return [(number, event) for number, event, incarnation in waiting if incarnation < furthest]

    def _packet_steps(self, state: State) -> Iterator[tuple[str, State]]:
        for place, packet in enumerate(state.packets):
            if place and state.packets[place - 1] == packet:
                continue  # a copy: the same steps
            rest = state.packets[:place] + state.packets[place + 1 :]
            name = self._name(packet)
            yield f"{name} arrives", self._after(state._replace(packets=rest), self._receiver(packet), packet)
            if state.losses:
                yield f"{name} is lost", state._replace(packets=rest, losses=state.losses - 1)
            if state.copies:
                more = _with(state.packets, (packet,))
                yield f"{name} is duplicated", state._replace(packets=more, copies=state.copies - 1)

    def _after(self, state: State, number: int, event: int) -> State:
        devices, packets = self._event(state.devices, state.packets, number, event)
        return state._replace(devices=devices, packets=packets)

    def _event(self, devices, packets, number: int, event: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        after, sent = self.machines[number].step(devices[number], event)
        return (*devices[:number], after, *devices[number + 1 :]), _with(packets, sent)

    def _receiver(self, packet: int) -> int:
        return self._index[self.packets.by_number[packet].destination]

    # Liveness

    def check_ends(self, state: State) -> None:
        """Violation unless the fair continuation of a state without faults ends as it should."""
        devices, packets = state.devices, state.packets
        way: list[tuple] = []
        while (devices, packets) not in self._good and not self._is_goal(devices, packets):
            if len(way) == LONGEST_CONTINUATION:
                raise Violation(f"stuck: the work never ends from here, {self._describe(devices)}")
            way.append((devices, packets))
            devices, packets = self._round(devices, packets)
        self._good.update(way)

    def _is_goal(self, devices, packets) -> bool:
        return not packets and all(m.done[s] for m, s in zip(self.machines, devices, strict=True))

    def _round(self, devices, packets):
        """All packets on their way arrive; all ranks go on; if nothing of this could happen, all timers expire."""
        before = devices, packets
        devices, packets = self._deliver_all(devices, packets)
        for number in self._aged(devices, packets):
            devices, packets = self._event(devices, packets, number, AGEING)
        for number, event in [*self._silent(devices, packets), *self._impatient(devices)]:
            devices, packets = self._event(devices, packets, number, event)
        for number, machine in enumerate(self.machines):
            for event in machine.ready[devices[number]]:
                devices, packets = self._event(devices, packets, number, event)
        return (devices, packets) if (devices, packets) != before else self._expire_all(devices)

    def _deliver_all(self, devices, packets):
        following: tuple[int, ...] = ()
        for packet in packets:
            devices, following = self._event(devices, following, self._receiver(packet), packet)
        return devices, following

    def _expire_all(self, devices):
        packets: tuple[int, ...] = ()
        for number in range(len(self.machines)):
            devices, packets = self._event(devices, packets, number, TIMER)
        return devices, packets

    # For people

    def _name(self, number: int) -> str:
        packet = self.packets.by_number[number]
        link = f"{self._index[packet.source]} -> {self._index[packet.destination]}"
        return f"{packet.opcode.name} of position {packet.position}, {link},"

    def _describe(self, devices: tuple[int, ...]) -> str:
        done = [machine.done[state] for machine, state in zip(self.machines, devices, strict=True)]
        return "unfinished devices: " + ", ".join(str(n) for n, is_done in enumerate(done) if not is_done)

    def _way(self, origins: dict, state: State) -> str:
        labels: list[str] = []
        while origins[state] is not None:
            state, label = origins[state]
            labels.append(label)
        steps = [f"  {label}" for label in reversed(labels)]
        return "\n".join([*steps, "  then, at the latest in what follows without further faults"])


def _with(packets: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(packets + more)) if more else packets


def main(names: list[str]) -> int:
    """Search instances by name. 0: all is well; 1: a violation, which is printed."""
    for name in names or INSTANCES:
        try:
            print(f"{name}: {Explorer((INSTANCES | DEEP_INSTANCES)[name]).run()}", flush=True)
        except Violation as violation:
            print(f"{name}: VIOLATION: {violation}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
