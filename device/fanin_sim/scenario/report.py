"""The report of a simulated collective, for people and programs."""

from dataclasses import asdict, dataclass
from typing import Any

from fanin_sim.scenario.link_traffic import LevelTraffic
from fanin_sim.scenario.slot_occupancy import Sample


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
