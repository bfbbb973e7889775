"""The model checker: a search of all states of a small instance, and of an end from each of them.

    python -m fanin_sim.model_check.explorer [INSTANCE ...]

The command searches the named instances (see `instances`), by default all but the deep ones, and prints the number of
states. For a violation it prints the shortest sequence of events that leads there, and exits with 1.

Safety is checked at every transition of a device (`device_model`); where devices crash, no other device may be reported
as lost. Liveness is checked from every reachable state: a continuation without further faults, in which timers expire
when nothing else happens, must end with all requests complete, all ranks gone and all devices empty
(`LivenessChecker`).
"""

import sys
import time
from collections import deque
from typing import NamedTuple

from fanin_sim.model_check.device_model import DeviceSummary
from fanin_sim.model_check.instances import DEEP_INSTANCES, INSTANCES, Instance, World
from fanin_sim.model_check.rank_programs import Violation
from fanin_sim.model_check.state_space import Numbers, State, StateSpace

MAX_ROUNDS = 400
Origins = dict[State, tuple[State, str] | None]  # the predecessor of each state, and the event


class Report(NamedTuple):
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
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.world = World(instance)
        self.space = StateSpace(instance, self.world)
        self._liveness = LivenessChecker(self.space)
        self.transitions = 0

    def run(self) -> Report:
        """Searches all states. Raises Violation, with the sequence of events."""
        begun = time.perf_counter()
        start = self.space.start()
        origins: Origins = {start: None}
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            try:
                self._liveness.check(state)
                for label, following in self.space.successors(state):
                    self.transitions += 1
                    self.check_reported_losses(following)
                    if following not in origins:
                        origins[following] = state, label
                        waiting.append(following)
            except Violation as violation:
                raise Violation(f"{violation}\n{_trace(origins, state)}") from violation
        device_states = sum(len(model.states) for model in self.space.models)
        return Report(len(origins), self.transitions, device_states, time.perf_counter() - begun)

    def check_reported_losses(self, state: State) -> None:
        """Raises Violation if a rank was told that a device is lost which has never crashed."""
        seen = self.space.summaries(state.devices)
        crashed = self.crashed(seen)
        for number, one in enumerate(seen):
            wrong = one.lost & ~crashed
            if wrong and self.instance.crashes:
                raise Violation(f"a rank of device {number} is told that others are lost, which are not: {wrong:#b}")

    @staticmethod
    def crashed(seen: list[DeviceSummary]) -> int:
        """A bitmap of the devices that have ever crashed."""
        return sum(1 << number for number, one in enumerate(seen) if one.crashes)


def _trace(origins: Origins, state: State) -> str:
    """All events on the path to a state."""
    labels: list[str] = []
    while (origin := origins[state]) is not None:
        state, label = origin
        labels.append(label)
    steps = [f"  {label}" for label in reversed(labels)]
    return "\n".join([*steps, "  then the violation, in the continuation without further faults at the latest"])


class LivenessChecker:
    """Follows states to their end, each state once."""

    def __init__(self, space: StateSpace) -> None:
        self._space = space
        self._good: set[tuple[Numbers, Numbers]] = set()

    def check(self, state: State) -> None:
        """Raises Violation unless all requests complete, all ranks leave and all devices are empty in the end."""
        devices, packets = state.devices, state.packets
        path: list[tuple[Numbers, Numbers]] = []
        while (devices, packets) not in self._good and not self._is_goal(devices, packets):
            if len(path) == MAX_ROUNDS:
                raise Violation(f"stuck: the work never ends from here, {self._describe(devices)}")
            path.append((devices, packets))
            devices, packets = self._round(devices, packets)
        self._good.update(path)

    def _is_goal(self, devices: Numbers, packets: Numbers) -> bool:
        return not packets and all(seen.is_done for seen in self._space.summaries(devices))

    def _round(self, devices: Numbers, packets: Numbers) -> tuple[Numbers, Numbers]:
        """Delivers all packets and lets all ranks take a step. If this changes nothing, all timers expire."""
        space, before = self._space, (devices, packets)
        devices, packets = space.deliver_all(devices, packets)
        for number, event in space.timeouts(devices, packets):
            if (number, event) not in space.timeouts(devices, packets):  # an event before it has made it impossible
                continue
            devices, packets = space.apply_event(devices, packets, number, event)
        for number, model in enumerate(space.models):
            for event in model.summaries[devices[number]].ready:
                devices, packets = space.apply_event(devices, packets, number, event)
        return (devices, packets) if (devices, packets) != before else space.expire_all(devices)

    def _describe(self, devices: Numbers) -> str:
        seen = self._space.summaries(devices)
        return "unfinished devices: " + ", ".join(str(n) for n, one in enumerate(seen) if not one.is_done)


def main(names: list[str]) -> int:
    """Searches instances by name. Returns 0 if all invariants hold, 1 for a violation, 2 for an unknown instance."""
    every = INSTANCES | DEEP_INSTANCES
    if unknown := [name for name in names if name not in every]:
        print(f"there is no instance {', '.join(unknown)}; use some of: {', '.join(every)}", file=sys.stderr)
        return 2
    for name in names or INSTANCES:
        try:
            print(f"{name}: {Explorer(every[name]).run()}", flush=True)
        except Violation as violation:
            print(f"{name}: VIOLATION: {violation}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
