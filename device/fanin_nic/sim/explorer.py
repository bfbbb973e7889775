"""Exhaustive search: every order in which packets arrive, are lost or are duplicated, timers expire, ranks act and die,
and devices crash and come back.

    python -m fanin_nic.sim.explorer [INSTANCE ...]

Searches the named instances (see `instances`; without a name all but the deep ones) and prints how many states there
were. If something can happen that must not, it prints the shortest way to it and exits with 1.

Safety is checked at every transition of a device (`machine`); where devices crash, also that nobody else is named as
lost. Liveness: from every state that can be reached, a
continuation without further faults, in which timers expire when nothing else happens, must end with all requests
complete, all ranks gone and all devices empty.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from fanin_nic.sim.instances import DEEP_INSTANCES, INSTANCES, Instance, World
from fanin_nic.sim.machine import CRASH, DEATH, RANK, RETURN, TIMER, Machine, Packets, Situation
from fanin_nic.sim.patience import Patience, name_of
from fanin_nic.sim.rank_programs import Violation

LONGEST_CONTINUATION = 400  # rounds


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
    crashes: int
    returns: int


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
        self._patience = Patience(instance, self.machines, self.world.job.placement)
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
                    self.check_blame(following)
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
            ranks = [(n, index) for n, one in enumerate(self.machines) for index in range(len(one.ranks.members))]
            for number, index in ranks:
                devices, packets = self._event(devices, packets, number, RANK - index)
            while packets:
                devices, packets = self._deliver_all(devices, packets)
                if not packets and not self._all_joined(devices):
                    devices, packets = self._expire_all(devices)
        instance = self.instance
        faults = instance.losses, instance.copies, instance.early_timers, instance.deaths
        return State(devices, packets, *faults, instance.crashes, instance.returns)

    def _all_joined(self, devices: tuple[int, ...]) -> bool:
        now = zip(self.machines, self._situations(devices), strict=True)
        return all(len(seen.ready) == len(machine.ranks.members) for machine, seen in now)

    def _situations(self, devices: tuple[int, ...]) -> list[Situation]:
        return [machine.situations[state] for machine, state in zip(self.machines, devices, strict=True)]

    # One step

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """Every state that may follow, with what has happened."""
        yield from self._packet_steps(state)
        yield from self._ends(state)
        for number, seen in enumerate(self._situations(state.devices)):
            for event in seen.ready:
                yield f"rank {RANK - event} of device {number} goes on", self._after(state, number, event)
            if not state.packets:
                yield f"timers of device {number}", self._after(state, number, TIMER)
            elif state.early_timers:
                followed = self._after(state, number, TIMER)
                yield f"timers of device {number}, early", followed._replace(early_timers=state.early_timers - 1)

    def _ends(self, state: State) -> Iterator[tuple[str, State]]:
        """Ranks die or give up, devices crash and come back, jobs age."""
        seen = self._situations(state.devices)
        for number, event in [(n, event) for n, one in enumerate(seen) for event in one.mortal if state.deaths]:
            followed = self._after(state, number, event)
            yield f"rank {DEATH - event} of device {number} dies", followed._replace(deaths=state.deaths - 1)
        for number in self._may_crash(seen) if state.crashes else []:
            followed = self._after(state, number, CRASH)
            yield f"device {number} crashes", followed._replace(crashes=state.crashes - 1)
        for number in [n for n, one in enumerate(seen) if one.is_gone and state.returns]:
            followed = self._after(state, number, RETURN)
            yield f"device {number} comes back", followed._replace(returns=state.returns - 1)
        for number, event in self._lasting(state.devices, state.packets):
            yield f"{name_of(event)} at device {number}", self._after(state, number, event)

    def _may_crash(self, seen: list[Situation]) -> list[int]:
        """Devices whose crash would matter: NICs, or else switches."""
        now = zip(self.machines, seen, strict=True)
        return [n for n, (m, one) in enumerate(now) if m.is_nic != self.instance.switches_crash and not one.is_done]

    def _lasting(self, devices: tuple[int, ...], packets: tuple[int, ...]) -> list[tuple[int, int]]:
        return self._patience.events(self._situations(devices), quiet=not packets)

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

    # Safety and liveness of the whole

    def check_blame(self, state: State) -> None:
        """Violation if a rank was told that a device is lost which has never crashed."""
        seen = self._situations(state.devices)
        crashed = self.crashed(seen)
        for number, one in enumerate(seen):
            if one.lost & ~crashed and self.instance.crashes:
                raise Violation(f"a rank of device {number} is told that others are lost: {one.lost & ~crashed:#b}")

    @staticmethod
    def crashed(seen: list[Situation]) -> int:
        """Bitmap of devices that have crashed, whether they are back or not."""
        return sum(1 << number for number, one in enumerate(seen) if one.crashes)

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
        return not packets and all(seen.is_done for seen in self._situations(devices))

    def _round(self, devices, packets):
        """All packets on their way arrive; all ranks go on; if nothing of this could happen, all timers expire."""
        before = devices, packets
        devices, packets = self._deliver_all(devices, packets)
        for number, event in self._lasting(devices, packets):
            if (number, event) not in self._lasting(devices, packets):  # what came before it has made it impossible
                continue
            devices, packets = self._event(devices, packets, number, event)
        for number, machine in enumerate(self.machines):
            for event in machine.situations[devices[number]].ready:
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
        seen = self._situations(devices)
        return "unfinished devices: " + ", ".join(str(n) for n, one in enumerate(seen) if not one.is_done)

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
