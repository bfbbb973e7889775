"""The traffic on the links of a simulation, by level and direction."""

import statistics
from collections.abc import Iterable
from typing import NamedTuple

from fanin_sim.fabric.links import Link
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import Topology


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
    for completed, link in simulation.links.by_ends.items():
        groups.setdefault(_level_and_direction(simulation.topology, *completed), []).append(link)
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
