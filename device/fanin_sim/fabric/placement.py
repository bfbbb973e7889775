"""The way of a job through a fabric: what each node's NIC is told, and in which order its ranks' data are folded.

Nodes below a switch that does not offload form a ring whose last node is the one child of the next switch above that
does. Bits at a switch follow the order of the nodes: of each child, its first node counts.
"""

from __future__ import annotations

from typing import NamedTuple

from fanin_sim.fabric.topology import Topology
from fanin_wire.abi import MAX_CHILDREN, MAX_HOPS, Route
from fanin_wire.association import Device, Path, Ring

Below = tuple[str, int]  # a child of a switch: ("switch", number), ("ring", home switch) or ("node", number)


class Hop(NamedTuple):
    """A switch on the way up: its index, the bit of the device below at it, and all bits that it waits for."""

    switch: int
    bit: int
    mask: int


class Place(NamedTuple):
    """A node's place. `ring`: nodes of its ring in order, if it is in one; `fixed_start`: that ring does not rotate and
    its last node has `hops`."""

    route: Route
    hops: tuple[Hop, ...] = ()
    ring: tuple[int, ...] = ()
    fixed_start: bool = False


class Placement:
    """Places of `nodes`, ascending. `top`: the switch at which a tree ends; without it the lowest above all nodes."""

    def __init__(self, topology: Topology, nodes: list[int], route: Route, top: int | None = None) -> None:
        self.topology, self.nodes, self.route = topology, nodes, route
        self.children: dict[int, list[Below]] = {}  # of each switch, by their bits
        self.places = self._tree(top) if route == Route.TREE else self._flat()

    def vertex(self, switch: int) -> int:
        """Number of a switch among all devices: the NICs come first."""
        return self.topology.nodes + switch

    def ring_of(self, home: int) -> tuple[int, ...]:
        """Nodes of the job that hang on a switch, in order."""
        return tuple(node for node in self.nodes if self.topology.homes[node] == home)

    def path(self, ranks: dict[int, list[int]], *, rotates: bool) -> Path:
        """The order of folding. ranks: of each node, numbered through the job. rotates: a ring of the whole job."""
        nics = {node: Device(tuple(ranks[node])) for node in self.nodes}
        if self.route == Route.LOCAL:
            return nics[self.nodes[0]]
        if self.route == Route.RING:
            return Ring(tuple(nics.values()), rotates)
        return self._below(("switch", self._top), nics)

    def _flat(self) -> dict[int, Place]:
        ring = tuple(self.nodes) if self.route == Route.RING else ()
        return dict.fromkeys(self.nodes, Place(self.route, ring=ring))

    def _tree(self, top: int | None) -> dict[int, Place]:
        ways = {node: self.topology.offloading(node) for node in self.nodes}
        self._top = self._lowest_common(ways) if top is None else top
        for node, way in ways.items():
            del way[way.index(self._top) + 1 :]
            for below, switch in zip([self._unit(node), *(("switch", s) for s in way)], way, strict=False):
                children = self.children.setdefault(switch, [])
                if below not in children:
                    children.append(below)
        self._refuse_what_is_too_large(ways)
        return {node: self._place(node, way) for node, way in ways.items()}

    def _lowest_common(self, ways: dict[int, list[int]]) -> int:
        first, *others = ways.values()
        common = [switch for switch in first if all(switch in way for way in others)]
        if not common:
            raise ValueError("no switch above all nodes of the job offloads: use route ring")
        return common[0]

    def _refuse_what_is_too_large(self, ways: dict[int, list[int]]) -> None:
        if max(map(len, ways.values())) > MAX_HOPS:
            raise ValueError(f"more than {MAX_HOPS} switches above a node: make the tree flatter")
        widest = max(map(len, [*self.children.values(), *map(self._members, self.nodes)]))
        if widest > MAX_CHILDREN:
            raise ValueError(f"{widest} children of one device; {MAX_CHILDREN} are possible: add a level of switches")

    def _unit(self, node: int) -> Below:
        """What a node's data come up in: its own NIC, or the ring of its switch."""
        alone = self.topology.homes[node] not in self.topology.plain or len(self._members(node)) == 1
        return ("node", node) if alone else ("ring", self.topology.homes[node])

    def _members(self, node: int) -> tuple[int, ...]:
        """Nodes of the job that hang on the same switch."""
        return self.ring_of(self.topology.homes[node])

    def _place(self, node: int, way: list[int]) -> Place:
        unit = self._unit(node)
        hops = []
        for below, switch in zip([unit, *(("switch", s) for s in way)], way, strict=False):
            children = self.children[switch]
            hops.append(Hop(switch, children.index(below), (1 << len(children)) - 1))
        in_ring = unit[0] == "ring"
        return Place(
            Route.RING if in_ring else Route.TREE,
            tuple(hops),
            self._members(node) if in_ring else (),
            fixed_start=in_ring,
        )

    def _below(self, child: Below, nics: dict[int, Device]) -> Path:
        kind, number = child
        if kind == "switch":
            return Device(tuple(self._below(below, nics) for below in self.children[number]))
        if kind == "ring":
            return Ring(tuple(nics[n] for n in self.ring_of(number)), rotates=False)
        return nics[number]
