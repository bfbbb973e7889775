"""A collective on a large fabric as a few numbers, and the limits of the devices that follow from them.

The checks do not import the engine, which takes seconds to load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanin_sim.fabric.placement import Placement
from fanin_sim.fabric.topology import Topology
from fanin_sim.jobs.message import COLLECTIVES, MODES
from fanin_wire.abi import MAX_CHILDREN, ContributorClass, Route
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import check_supported, operation_by_name

if TYPE_CHECKING:
    from fanin_nic.engine.engine import Limits

MIN_SLOTS = 4  # of a lease
MAX_DELAY = 1_000_000_000  # ns; devices take a neighbour for lost after 5 s of silence
SECONDS_OF_SEGMENT = 2.0  # most that a segment takes on a link, for the same reason
SECONDS_OF_MESSAGES = 30.0  # most that the messages of all jobs take; jobs may take 10 minutes, with all repetitions


class ScenarioInvalid(ValueError):
    """The numbers of a scenario contradict each other. The message is the cause; `remedy` says what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy


@dataclass(frozen=True)
class Scenario:
    """The parameters of a simulation.

    fanout: see `Topology.fan_out`; empty for direct links.
    size: bytes of the message.
    jobs: number of equal jobs that start together, over the same nodes.
    plain_leaves: the lowest switches do not offload.
    rate: bits per second; 0 for links that take no time.
    delay: propagation delay of each link, ns.
    slots: N of each job.
    """

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
        """The fabric. Raises ValueError if the nodes do not fit."""
        if not self.fanout:
            return Topology.direct(self.nodes)
        fabric = Topology.fan_out(*self.fanout, nodes=self.nodes)
        return fabric._replace(plain=frozenset(fabric.homes)) if self.plain_leaves else fabric

    def check(self) -> None:
        """Raises ScenarioInvalid if the numbers contradict each other."""
        _require_choice("collective", self.collective, COLLECTIVES)
        _require_choice("reproducible", self.reproducible, MODES)
        _require_choice("route", self.route, ("tree", "ring"))
        _require(
            self.route == "ring" or bool(self.fanout), "route tree needs switches", "give a fan-out, or route ring"
        )
        self._check_fabric()
        for name in ("chunk", "slots"):
            value = getattr(self, name)
            _require(value & (value - 1) == 0, f"{name} {value} is not a power of two", "use for example 64 or 4096")
        _require(self.slots >= MIN_SLOTS, f"{self.slots} slots", f"use {MIN_SLOTS} or more")
        self._check_size()
        self._check_links()

    def _check_fabric(self) -> None:
        try:
            check_supported(operation_by_name(self.operation), datatype_by_name(self.dtype))
        except ValueError as error:
            raise ScenarioInvalid(str(error), "choose an op and a dtype of these") from error
        try:
            Placement(self.topology(), list(range(self.nodes)), Route[self.route.upper()])
        except ValueError as error:
            raise ScenarioInvalid(str(error), "choose a fan-out and a number of nodes that fit") from error
        ring_fits = self.route == "tree" or self.nodes <= MAX_CHILDREN
        _require(ring_fits, f"a ring of {self.nodes} nodes", f"use at most {MAX_CHILDREN}, or route tree")

    def _check_size(self) -> None:
        """Each block needs an element. Only the last block may be shorter than the others."""
        collective, itemsize = COLLECTIVES[self.collective], datatype_by_name(self.dtype).itemsize
        if collective.contributors == ContributorClass.NONE:
            return
        blocks = self.nodes * self.ranks_per_node if collective.per_rank else 1
        least = blocks * itemsize
        cause = f"a message of {self.size} bytes"
        what = f"{blocks} elements of {self.dtype}, one for each rank" if blocks > 1 else f"an element of {self.dtype}"
        _require(self.size >= least, cause, f"use at least {least} bytes, {what}")
        elements = self.size // itemsize
        fits = (blocks - 1) * -(-elements // blocks) < elements
        _require(fits, f"{cause} leaves some of {blocks} ranks without a block", f"use a multiple of {least} bytes")

    def _check_links(self) -> None:
        """Slow links would make devices take each other for lost, or jobs end too late."""
        _require(self.delay <= MAX_DELAY, f"a delay of {self.delay} ns", f"use at most {MAX_DELAY}")
        bytes_per_second = max(self.chunk / SECONDS_OF_SEGMENT, self.jobs * self.size / SECONDS_OF_MESSAGES)
        least = math.ceil(8 * bytes_per_second / 1000)  # kbit/s
        cause = f"links of {self.rate} bit/s for segments of {self.chunk} and messages of {self.size} bytes"
        remedy = f"use at least {least}kbit, or 0 for links that take no time"
        _require(self.rate == 0 or self.rate >= 1000 * least, cause, remedy)

    def limits(self, children: int) -> Limits:
        """The limits of a device whose tables are just large enough.

        Args:
            children: most children of the device. In a reproducible mode each slot has a buffer for each child.
        """
        from fanin_nic.engine.engine import Limits

        queues = self.jobs * self.ranks_per_node
        lease = self.slots * (children if self.reproducible != "none" else 1)
        return Limits(
            jobs=self.jobs,
            slots=self.jobs * lease,
            queues=queues,
            requests=4,
            addresses=1,
            regions=2 * queues,
            actions=1024,
            max_chunk=self.chunk,
            min_lease=min(4, self.slots),
            max_lease=lease,
        )


def _require_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    _require(value in allowed, f"{name} {value!r}", f"use one of {', '.join(allowed)}")


def _require(holds: bool, cause: str, remedy: str) -> None:
    if not holds:
        raise ScenarioInvalid(cause, remedy)
