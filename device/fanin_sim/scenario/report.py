"""The report of a simulated collective: its results, the traffic of links, the slots in use over time."""

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from fanin_sim.fabric.device import Device
from fanin_sim.fabric.links import Link
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import Topology

MAX_SAMPLES = 64
FIRST_INTERVAL = 1_000  # ns


class ByteRange(NamedTuple):
    """Bytes on the links of a group: minimum, median and maximum."""

    least: int
    median: float
    most: int


class LevelTraffic(NamedTuple):
    """The links of one level and direction that have carried packets.

    level: number of switches above the lower end: 1 is directly below the top, 0 is between NICs.
    payload: payload bytes of segments and control packets.
    wire: bytes with all headers and gaps.
    """

    level: int
    direction: str
    links: int
    packets: int
    payload: ByteRange
    wire: ByteRange


def traffic_by_level(simulation: Simulation) -> list[LevelTraffic]:
    """One entry for each level and direction, from the top down."""
    groups: dict[tuple[int, str], list[Link]] = {}
    for ends, link in simulation.links.by_ends.items():
        groups.setdefault(_level_and_direction(simulation.topology, *ends), []).append(link)
    return [
        LevelTraffic(
            level,
            direction,
            len(links),
            sum(link.packets for link in links),
            _byte_range(link.payload.total() for link in links),
            _byte_range(link.wire for link in links),
        )
        for (level, direction), links in sorted(groups.items())
    ]


def _level_and_direction(topology: Topology, source: int, destination: int) -> tuple[int, str]:
    if topology.parent(source) == destination:
        return topology.depth(source), "up"
    if topology.parent(destination) == source:
        return topology.depth(destination), "down"
    return 0, "direct"


def _byte_range(counts: Iterable[int]) -> ByteRange:
    values = list(counts)
    return ByteRange(min(values), statistics.median(values), max(values))


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


@dataclass(frozen=True)
class Report:
    """The results of a simulation. Times are in ns of virtual time from the first posting.

    finished: the completion time of each job.
    shares: the share of each job in the payload on all links, until the first job was complete.
    probes, resent: PROBE packets, and packets sent again.
    groups: groups of devices; each sample of `occupancy` has the slot use of all groups, in this order.
    wall_s: real time, in seconds.
    """

    switches: int
    finished: list[int]
    shares: list[float]
    packets: int
    probes: int
    resent: int
    links: list[LevelTraffic]
    groups: list[str]
    occupancy: list[Sample]
    wall_s: float

    def as_dict(self) -> dict[str, Any]:
        links = [
            {**line._asdict(), "payload": line.payload._asdict(), "wire": line.wire._asdict()} for line in self.links
        ]
        occupancy = [
            {"time": sample.time, **{name: use._asdict() for name, use in zip(self.groups, sample.use, strict=True)}}
            for sample in self.occupancy
        ]
        return {**asdict(self), "links": links, "occupancy": occupancy}
