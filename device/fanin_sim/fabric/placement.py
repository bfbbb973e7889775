"""Places the ranks of a job in a fabric: the hops and the ring of each node, and the neighbours of each device.

The nodes below a switch that does not offload form a ring. The last node of the ring is the one child of the next
switch above that offloads. The bits of a switch's children follow the order of the nodes; the first node of a child
counts.

Devices are vertices: NICs first, then switches. A completion with PEER_LOST contains a bitmap of missing members and
its scope. Scope 0 are the ranks of the node; `scopes_of` lists the others.
"""

from typing import NamedTuple

from fanin_sim.fabric.topology import Topology
from fanin_wire.abi import MAX_CHILDREN, MAX_HOPS, Route
from fanin_wire.association import Device, Path, Ring

Child = tuple[str, int]  # ("switch", number), ("ring", switch of its nodes) or ("node", number)
NO_DEVICE = -1
PARENT, RING_NEXT, RING_PREVIOUS = range(3)  # of a NIC


class Hop(NamedTuple):
    """A switch between a node and the top: its index, the bit of the device below it, and the mask of all bits that
    it waits for."""

    switch: int
    bit: int
    mask: int


class Place(NamedTuple):
    """The place of a node. `ring`: the nodes of its ring in order, if it is in one. `fixed_start`: the ring does not
    rotate, and its last node has `hops`."""

    route: Route
    hops: tuple[Hop, ...] = ()
    ring: tuple[int, ...] = ()
    fixed_start: bool = False


class Placement:
    """The places of all nodes of a job.

    Args:
        nodes: the nodes, ascending.
        top: the switch at which a tree ends; by default the lowest switch above all nodes.

    Raises:
        ValueError: the route is not possible on this topology. The message says what to do.
    """

    def __init__(self, topology: Topology, nodes: list[int], route: Route, top: int | None = None) -> None:
        self.topology, self.nodes, self.route = topology, nodes, route
        self.children: dict[int, list[Child]] = {}  # of each switch, in the order of their bits
        self.places = self._tree(top) if route == Route.TREE else self._flat()

    def vertex(self, switch: int) -> int:
        """Returns the vertex of a switch."""
        return self.topology.nodes + switch

    def ring_of(self, home: int) -> tuple[int, ...]:
        """Returns the nodes of the job that are attached to a switch, in order."""
        return tuple(node for node in self.nodes if self.topology.homes[node] == home)

    def path(self, ranks: dict[int, list[int]], *, rotates: bool) -> Path:
        """Returns the order in which data are reduced.

        Args:
            ranks: the ranks of each node, numbered through the job.
            rotates: whether a ring of the whole job rotates.
        """
        nics = {node: Device(tuple(ranks[node])) for node in self.nodes}
        if self.route == Route.LOCAL:
            return nics[self.nodes[0]]
        if self.route == Route.RING:
            return Ring(tuple(nics.values()), rotates)
        return self._fold_order(("switch", self._top), nics)

    def _flat(self) -> dict[int, Place]:
        ring = tuple(self.nodes) if self.route == Route.RING else ()
        return dict.fromkeys(self.nodes, Place(self.route, ring=ring))

    def _tree(self, top: int | None) -> dict[int, Place]:
        paths = {node: self.topology.offloading(node) for node in self.nodes}
        self._top = self._lowest_common(paths) if top is None else top
        for node, switches in paths.items():
            del switches[switches.index(self._top) + 1 :]
            for child, switch in zip(
                [self._bottom_child(node), *(("switch", s) for s in switches)], switches, strict=False
            ):
                children = self.children.setdefault(switch, [])
                if child not in children:
                    children.append(child)
        self._check_size(paths)
        return {node: self._place(node, switches) for node, switches in paths.items()}

    def _lowest_common(self, paths: dict[int, list[int]]) -> int:
        first, *others = paths.values()
        common = [switch for switch in first if all(switch in switches for switches in others)]
        if not common:
            raise ValueError("no switch above all nodes of the job offloads: use route ring")
        return common[0]

    def _check_size(self, paths: dict[int, list[int]]) -> None:
        if max(map(len, paths.values())) > MAX_HOPS:
            raise ValueError(f"more than {MAX_HOPS} switches above a node: make the tree flatter")
        widest = max(map(len, [*self.children.values(), *map(self._members, self.nodes)]))
        if widest > MAX_CHILDREN:
            raise ValueError(f"{widest} children of one device; {MAX_CHILDREN} are possible: add a level of switches")

    def _bottom_child(self, node: int) -> Child:
        """The lowest child that contains a node: its own NIC, or the ring of its switch."""
        alone = self.topology.homes[node] not in self.topology.plain or len(self._members(node)) == 1
        return ("node", node) if alone else ("ring", self.topology.homes[node])

    def _members(self, node: int) -> tuple[int, ...]:
        """Nodes of the job that are attached to the same switch as a node."""
        return self.ring_of(self.topology.homes[node])

    def _place(self, node: int, switches: list[int]) -> Place:
        unit = self._bottom_child(node)
        hops = []
        for child, switch in zip([unit, *(("switch", s) for s in switches)], switches, strict=False):
            children = self.children[switch]
            hops.append(Hop(switch, children.index(child), (1 << len(children)) - 1))
        in_ring = unit[0] == "ring"
        return Place(
            Route.RING if in_ring else Route.TREE,
            tuple(hops),
            self._members(node) if in_ring else (),
            fixed_start=in_ring,
        )

    def _fold_order(self, child: Child, nics: dict[int, Device]) -> Path:
        kind, number = child
        if kind == "switch":
            return Device(tuple(self._fold_order(child, nics) for child in self.children[number]))
        if kind == "ring":
            return Ring(tuple(nics[n] for n in self.ring_of(number)), rotates=False)
        return nics[number]


class Scope(NamedTuple):
    """The devices that the bits of a scope stand for.

    parent: the device above the children; NO_DEVICE in a ring. A device that does not hear its parent hears no child
    either, so all bits together can also mean the parent.
    children: for each bit a child, with all devices below it.
    """

    parent: int
    children: tuple[frozenset[int], ...]


def scopes_of(placement: Placement, node: int) -> list[Scope]:
    """The scopes 1, 2, ... of a node's NIC."""
    place = placement.places[node]
    scopes = [Scope(NO_DEVICE, tuple(frozenset({n}) for n in place.ring))] if place.ring else []
    return scopes + [_switch_scope(placement, hop.switch) for hop in place.hops]


def _switch_scope(placement: Placement, switch: int) -> Scope:
    return Scope(placement.vertex(switch), tuple(_subtree(placement, child) for child in placement.children[switch]))


def _subtree(placement: Placement, child: Child) -> frozenset[int]:
    """The vertices of a child of a switch, and all below it."""
    kind, number = child
    if kind == "node":
        return frozenset({number})
    if kind == "ring":
        return frozenset(placement.ring_of(number))
    own = frozenset({placement.vertex(number)})
    return own.union(*(_subtree(placement, child) for child in placement.children[number]))


def neighbours(placement: Placement) -> dict[int, dict[int, int]]:
    """The neighbours of each device of a job, by vertex.

    Of a NIC by the keys PARENT, RING_NEXT and RING_PREVIOUS, where it has them. Of a switch: its children by their
    bits, without its parent.
    """
    found = {node: _nic_neighbours(placement, node, place) for node, place in placement.places.items()}
    for switch, children in placement.children.items():
        found[placement.vertex(switch)] = dict(enumerate(_representative(placement, child) for child in children))
    return found


def _nic_neighbours(placement: Placement, node: int, place: Place) -> dict[int, int]:
    found = {}
    if place.ring:
        index = place.ring.index(node)
        found = {RING_NEXT: place.ring[(index + 1) % len(place.ring)], RING_PREVIOUS: place.ring[index - 1]}
    if place.hops and (not place.ring or node == place.ring[-1]):  # only the last node of a ring sends to the parent
        found[PARENT] = placement.vertex(place.hops[0].switch)
    return found


def _representative(placement: Placement, child: Child) -> int:
    """The device that sends for a child of a switch: of a ring, the NIC of its last node."""
    kind, number = child
    if kind == "ring":
        return placement.ring_of(number)[-1]
    return number if kind == "node" else placement.vertex(number)
