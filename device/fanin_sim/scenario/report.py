"""What a simulated collective took, as numbers for people and programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fanin_sim.scenario.link_traffic import LevelTraffic
from fanin_sim.scenario.slot_occupancy import Sample


@dataclass(frozen=True)
class Report:
    """Times are in ns of virtual time from the first posting.

    finished: when each job was complete. shares: of the payload on all links, until the first job was. probes, resent:
    packets that asked for something, or brought it again. groups: of devices, whose use each sample of `occupancy` has.
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
        """For JSON."""
        links = [
            {**line._asdict(), "payload": line.payload._asdict(), "wire": line.wire._asdict()} for line in self.links
        ]
        occupancy = [
            {"time": sample.time, **{name: use._asdict() for name, use in zip(self.groups, sample.use, strict=True)}}
            for sample in self.occupancy
        ]
        return {**asdict(self), "links": links, "occupancy": occupancy}
