"""Exhaustive search: every order in which packets can arrive, be lost or be duplicated, timers expire and ranks act.

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

from fanin_nic.sim.instances import DEEP_INSTANCES, INSTANCES, Instance, World
from fanin_nic.sim.machine import TIMER, Machine, Packets, Violation

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
            first_step = [(n, -2 - r) for n, machine in enumerate(self.machines) for r in range(len(machine.members))]
            for number, event in first_step:
                devices, packets = self._event(devices, packets, number, event)
            while packets:
                devices, packets = self._deliver_all(devices, packets)
                if not packets and not self._all_joined(devices):
                    devices, packets = self._expire_all(devices)
        return State(devices, packets, self.instance.losses, self.instance.copies, self.instance.early_timers)

    def _all_joined(self, devices: tuple[int, ...]) -> bool:
        return all(
            len(machine.ready[state]) == len(machine.members)
            for machine, state in zip(self.machines, devices, strict=True)
        )

    # One step

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """Every state that may follow, with what has happened."""
        yield from self._packet_steps(state)
        for number, machine in enumerate(self.machines):
            for event in machine.ready[state.devices[number]]:
                yield f"rank {-2 - event} of device {number} goes on", self._after(state, number, event)
            if not state.packets:
                yield f"timers of device {number}", self._after(state, number, TIMER)
            elif state.early_timers:
                followed = self._after(state, number, TIMER)
                yield f"timers of device {number}, early", followed._replace(early_timers=state.early_timers - 1)

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
