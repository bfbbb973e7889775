"""A collective on a large fabric as a few numbers, and what follows from them for the devices."""

from __future__ import annotations

from dataclasses import dataclass

from fanin_nic.engine.engine import Limits
from fanin_nic.sim.collectives import COLLECTIVES
from fanin_nic.sim.job import MODES
from fanin_nic.sim.placement import Placement
from fanin_nic.sim.topology import Topology
from fanin_wire.abi import MAX_CHILDREN, Route
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import check_supported, operation_by_name


class ScenarioInvalid(ValueError):
    """Numbers of a scenario that contradict each other; the message says which."""


@dataclass(frozen=True)
class Scenario:
    """What is simulated. fanout: see `Topology.fan_out`; empty: direct links. size: bytes of the message. jobs: equal
    ones that start together, over the same nodes. plain_leaves: the lowest switches do not offload. rate: bits per
    second, 0 for links that take no time. delay: of each link, ns. slots: N of each job."""

    fanout: tuple[int, ...]
    nodes: int
    ranks_per_node: int = 1
    size: int = 1 << 20
    collective: str = "allreduce"
    operation: str = "SUM"
    dtype: str = "f32"
    route: str = "tree"
    rate: int = 0
    delay: int = 500
    loss: float = 0.0
    seed: int = 1
    jobs: int = 1
    reproducible: str = "none"
    wide: bool = False
    plain_leaves: bool = False
    chunk: int = 4096
    slots: int = 64

    def topology(self) -> Topology:
        """The fabric; ValueError if the nodes do not fit."""
        if not self.fanout:
            return Topology.direct(self.nodes)
        fabric = Topology.fan_out(*self.fanout, nodes=self.nodes)
        return fabric._replace(plain=frozenset(fabric.homes)) if self.plain_leaves else fabric

    def check(self) -> None:
        """Raise ScenarioInvalid if the numbers contradict each other."""
        choices = {"collective": COLLECTIVES, "reproducible": MODES, "route": ("tree", "ring")}
        for name, allowed in choices.items():
            _require(getattr(self, name) in allowed, f"{name} is one of {', '.join(allowed)}")
        _require(self.route == "ring" or bool(self.fanout), "route tree needs switches: give a fan-out")
        try:
            datatype = datatype_by_name(self.dtype)
            check_supported(operation_by_name(self.operation), datatype)
            Placement(self.topology(), list(range(self.nodes)), Route[self.route.upper()])
        except ValueError as error:
            raise ScenarioInvalid(str(error)) from error
        for name in ("chunk", "slots"):
            value = getattr(self, name)
            _require(value & (value - 1) == 0, f"{name} is a power of two, not {value}")
        _require(self.route == "tree" or self.nodes <= MAX_CHILDREN, f"a ring has at most {MAX_CHILDREN} nodes")
        least = self.nodes * self.ranks_per_node * datatype.itemsize
        _require(self.size >= least, f"at least {least} bytes are needed: an element for each rank")

    def limits(self, children: int) -> Limits:
        """Tables of a device just large enough; what is not used takes no memory. children: that it folds at most: in a
        reproducible mode each has a buffer of its own for every slot."""
        queues = self.jobs * self.ranks_per_node
        lease = self.slots * (children if self.reproducible != "none" else 1)
        return Limits(
            jobs=self.jobs,
            slots=self.jobs * lease,
            queues=queues,
            requests=4,
            regions=2 * queues,
            actions=1024,
            max_chunk=self.chunk,
            min_lease=min(4, self.slots),
            max_lease=lease,
        )


def _require(holds: bool, demand: str) -> None:
    if not holds:
        raise ScenarioInvalid(demand)
