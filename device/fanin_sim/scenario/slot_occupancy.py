"""The number of slots in use over virtual time, in groups of devices."""

from typing import NamedTuple

from fanin_sim.fabric.device import Device
from fanin_sim.fabric.simulation import Simulation

MAX_SAMPLES = 64
FIRST_INTERVAL = 1_000  # ns


class SlotUse(NamedTuple):
    mean: float
    most: int


class Sample(NamedTuple):
    """The use of all groups at a time (ns)."""

    time: int
    use: tuple[SlotUse, ...]


class Occupancy:
    """Samples at regular intervals. When there are too many, every second one is dropped and the interval doubled, so
    that they cover the whole run, whatever its duration."""

    def __init__(self, simulation: Simulation) -> None:
        self.groups = device_groups(simulation)
        self.samples: list[Sample] = []
        self._interval, self._due = FIRST_INTERVAL, simulation.now
        simulation.observe = self.sample

    def sample(self, now: int) -> None:
        """Takes a sample if it is time for one. The simulation calls it when the time has changed."""
        if now < self._due:
            return
        used = [[device.slots_used for device in devices] for devices in self.groups.values()]
        uses = tuple(SlotUse(sum(slots) / len(slots), max(slots)) for slots in used)
        self.samples.append(Sample(now, uses))
        if len(self.samples) == MAX_SAMPLES:
            del self.samples[1::2]
            self._interval *= 2
        self._due = now + self._interval


def device_groups(simulation: Simulation) -> dict[str, list[Device]]:
    """The groups of devices: the switches of each level, and the NICs."""
    topology = simulation.topology
    groups: dict[str, list[Device]] = {}
    for switch, device in enumerate(simulation.switches):
        depth = topology.depth(topology.nodes + switch)
        groups.setdefault(f"switches of level {depth}" if depth else "top switch", []).append(device)
    groups["NICs"] = simulation.nics
    return groups
