"""A simulated fabric as data: a tree of switches with the nodes as leaves, or nodes with direct links.

A *vertex* is a number: the NICs of the nodes come first, then the switches.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

NONE = -1  # no switch


class Topology(NamedTuple):
    """The tree of switches.

    above: for each switch the switch above it, which has a lower number. NONE for switch 0, the top.
    homes: for each node the switch to which it is attached. NONE for all nodes if there are no switches.
    plain: switches that forward packets and do not offload.
    """

    above: tuple[int, ...]
    homes: tuple[int, ...]
    plain: frozenset[int] = frozenset()

    # Common forms

    @classmethod
    def direct(cls, nodes: int) -> Self:
        """Without switches: each NIC has a link to each other one."""
        return cls((), (NONE,) * nodes)

    @classmethod
    def one_switch(cls, nodes: int) -> Self:
        """All nodes below one switch."""
        return cls.fan_out(nodes)

    @classmethod
    def leaves(cls, nodes: int, leaves: int) -> Self:
        """One switch above `leaves` others. Each of these has a run of consecutive nodes."""
        return cls.fan_out(leaves, math.ceil(nodes / leaves), nodes=nodes)

    @classmethod
    def fan_out(cls, *counts: int, nodes: int | None = None, plain: Sequence[int] = ()) -> Self:
        """A regular tree: counts[0] switches below the top, counts[1] below each of these, ...; the last count is of
        nodes.

        Args:
            nodes: fewer nodes than fit, spread evenly over the lowest switches, in runs.
            plain: switches that do not offload.

        Raises ValueError if the nodes do not fit.
        """
        above, level = [NONE], [0]
        for count in counts[:-1]:
            lower = [switch for switch in level for _ in range(count)]
            level = list(range(len(above), len(above) + len(lower)))
            above += lower
        total = len(level) * counts[-1] if nodes is None else nodes
        if not 0 < total <= len(level) * counts[-1]:
            raise ValueError(f"{total} nodes do not fit below {len(level)} switches with {counts[-1]} each")
        homes = tuple(level[node * len(level) // total] for node in range(total))
        return cls(tuple(above), homes, frozenset(plain))

    # Properties

    @property
    def nodes(self) -> int:
        return len(self.homes)

    @property
    def switches(self) -> int:
        return len(self.above)

    def parent(self, vertex: int) -> int:
        """The vertex above; NONE at the top."""
        switch = self.homes[vertex] if vertex < self.nodes else self.above[vertex - self.nodes]
        return NONE if switch == NONE else self.nodes + switch

    def ancestors(self, vertex: int) -> list[int]:
        """A vertex and all vertices above it, up to the top."""
        path = [vertex]
        while (vertex := self.parent(vertex)) != NONE:
            path.append(vertex)
        return path

    def children(self, switch: int) -> list[int]:
        """The devices directly below an offloading switch; plain switches are skipped."""
        devices = (v for v in range(self.nodes + self.switches) if v - self.nodes not in self.plain)
        return [vertex for vertex in devices if self._offloading_above(vertex) == switch]

    def _offloading_above(self, vertex: int) -> int:
        above = (v - self.nodes for v in self.ancestors(vertex)[1:])
        return next((switch for switch in above if switch not in self.plain), NONE)

    def depth(self, vertex: int) -> int:
        """The number of switches above a vertex."""
        return len(self.ancestors(vertex)) - 1

    def path(self, source: int, destination: int) -> list[int]:
        """The vertices on the path of a packet, with both ends."""
        up, down = self.ancestors(source), self.ancestors(destination)
        if up[-1] != down[-1]:
            return [source, destination]
        while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
            up.pop()
            down.pop()
        return up[:-1] + down[::-1]

    def offloading(self, node: int) -> list[int]:
        """The offloading switches above a node, lowest first."""
        return [v - self.nodes for v in self.ancestors(node)[1:] if v - self.nodes not in self.plain]


def nic_address(node: int) -> str:
    return f"10.{1 + node // 62_500}.{node // 250 % 250}.{1 + node % 250}"


def switch_address(switch: int) -> str:
    return f"10.0.{switch // 250}.{1 + switch % 250}"


def group_address(switch: int) -> str:
    return f"239.0.{switch // 250}.{1 + switch % 250}"
