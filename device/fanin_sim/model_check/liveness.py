"""Liveness: from every state, a continuation without further faults must end with all work done."""

from fanin_sim.model_check.rank_programs import Violation
from fanin_sim.model_check.state_space import Numbers, State, StateSpace

MAX_ROUNDS = 400


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
            if (number, event) not in space.timeouts(
                devices, packets
            ):  # an event before it in this round has made it impossible
                continue
            devices, packets = space.apply_event(devices, packets, number, event)
        for number, model in enumerate(space.models):
            for event in model.summaries[devices[number]].ready:
                devices, packets = space.apply_event(devices, packets, number, event)
        return (devices, packets) if (devices, packets) != before else space.expire_all(devices)

    def _describe(self, devices: Numbers) -> str:
        seen = self._space.summaries(devices)
        return "unfinished devices: " + ", ".join(str(n) for n, one in enumerate(seen) if not one.is_done)
