"""The neighbours of each device of a job, and the members that the bits of a PEER_LOST stand for.

Devices are vertices: NICs first, then switches. A completion with PEER_LOST contains a bitmap of missing members and
its scope. Scope 0 are the ranks of the node; `scopes_of` lists the others.
"""

from typing import NamedTuple

from fanin_sim.fabric.placement import Child, Place, Placement

NO_DEVICE = -1
PARENT, RING_NEXT, RING_PREVIOUS = range(3)  # of a NIC


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
