"""Links of a simulated fabric: transmission time, queueing, faults, and counters of what each carries.

A cable is two links, one for each direction. A packet occupies a link for all its bytes on the wire: preamble, start of
frame, Ethernet header, IPv4, UDP, BTH, CETH, payload, ICRC, frame check sequence and interframe gap.
"""

import itertools
import random
from collections import Counter
from typing import NamedTuple

from fanin_sim.fabric.topology import Topology
from fanin_wire.fields import ICRC_SIZE, IPV4_UDP_SIZE, TRANSPORT_SIZE

ETHERNET_SIZE = 14 + 4  # header and frame check sequence
INTERFRAME_SIZE = 20  # preamble, start of frame, gap
FRAMING = INTERFRAME_SIZE + ETHERNET_SIZE + IPV4_UDP_SIZE + ICRC_SIZE
PICOSECONDS = 10**12


class Faults(NamedTuple):
    """Probabilities for each packet, and delays in ns. A `jitter` above the time between packets reorders them."""

    loss: float = 0.0
    duplication: float = 0.0
    delay: int = 10_000
    jitter: int = 0
    read_delay: int = 2_000  # of a DMA read of process memory
    read_jitter: int = 0

    def arrivals(self, rng: random.Random) -> list[int]:
        """The delay of each copy of a packet; none if the packet is lost."""
        copies = 2 if rng.random() < self.duplication else 1
        return [_random_delay(self.delay, self.jitter, rng) for _ in range(copies) if rng.random() >= self.loss]

    def read(self, rng: random.Random) -> int:
        return _random_delay(self.read_delay, self.read_jitter, rng)


def _random_delay(delay: int, jitter: int, rng: random.Random) -> int:
    return delay + (rng.randrange(jitter) if jitter else 0)


class Rate(NamedTuple):
    """The speed of a link. `bits`: bits per second, 0 if it takes no time. `delay`: propagation delay, ns."""

    bits: int = 0
    delay: int = 0

    @property
    def is_timed(self) -> bool:
        return bool(self.bits or self.delay)


class Link:
    """One direction of a cable. `wire`: bytes with all headers; `packets`; `payload`: payload bytes by job id."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self.wire = 0
        self.packets = 0
        self.payload: Counter[int] = Counter()
        self._free_at = 0  # picoseconds

    def carry(self, data: bytes, now: int) -> int:
        """Sends a packet over the link, behind the packets that wait for it.

        Args:
            data: the packet, from the BTH to before the ICRC.
            now: time at which the packet reaches the link, ns.

        Returns the time at which its last bit leaves the link, ns.
        """
        size = len(data) + FRAMING
        self.wire += size
        self.packets += 1
        self.payload[jid_of(data)] += len(data) - TRANSPORT_SIZE
        if not self.rate.bits:
            return now + self.rate.delay
        start = max(self._free_at, now * 1000)
        self._free_at = start + size * 8 * PICOSECONDS // self.rate.bits
        return -(-self._free_at // 1000) + self.rate.delay


def jid_of(data: bytes) -> int:
    return int.from_bytes(data[16:20], "big")


class Links:
    """The links of a topology. A path is a tuple of links, by (source, destination) vertex."""

    def __init__(self, topology: Topology, rate: Rate) -> None:
        self.topology = topology
        self.rate = rate
        self.by_ends: dict[tuple[int, int], Link] = {}
        self._paths: dict[tuple[int, int], tuple[Link, ...]] = {}

    def path(self, source: int, destination: int) -> tuple[Link, ...]:
        found = self._paths.get((source, destination))
        if found is None:
            vertices = self.topology.path(source, destination)
            found = tuple(self._between(*ends) for ends in itertools.pairwise(vertices))
            self._paths[source, destination] = found
        return found

    def payload(self) -> Counter[int]:
        """Payload bytes of all links by job id."""
        return sum((link.payload for link in self.by_ends.values()), Counter())

    def reset(self) -> None:
        self.by_ends.clear()
        self._paths.clear()

    def _between(self, source: int, destination: int) -> Link:
        return self.by_ends.setdefault((source, destination), Link(self.rate))
