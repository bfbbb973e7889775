"""Who is who in a job: the neighbours of each device, and whom the bits mean by which a device names others.

Devices are vertices of the fabric: NICs first, then switches. The kinds of bits are those of `engine.control.blame`.
"""

from __future__ import annotations

from typing import NamedTuple

from fanin_sim.fabric.placement import Child, Place, Placement

NO_DEVICE = -1
PARENT, RING_NEXT, RING_PREVIOUS = range(3)  # the neighbours of a NIC; a switch has its children, by their bits


class Scope(NamedTuple):
    """Whom a NIC means by the bits of a kind: `children` of a device `parent` (in a ring: of nobody), each with all that
    hang on it. All bits together may also mean the device parent: who does not hear it hears none of them."""

    parent: int
    children: tuple[frozenset[int], ...]


def scopes_of(placement: Placement, node: int) -> list[Scope]:
    """The kinds 1, 2, ... of a node's NIC."""
    place = placement.places[node]
    scopes = [Scope(NO_DEVICE, tuple(frozenset({n}) for n in place.ring))] if place.ring else []
    return scopes + [_switch_scope(placement, hop.switch) for hop in place.hops]


def _switch_scope(placement: Placement, switch: int) -> Scope:
    return Scope(placement.vertex(switch), tuple(_subtree(placement, child) for child in placement.children[switch]))


def _subtree(placement: Placement, child: Child) -> frozenset[int]:
    """A child of a switch, with all child it."""
    kind, number = child
    if kind == "node":
        return frozenset({number})
    if kind == "ring":
        return frozenset(placement.ring_of(number))
    own = frozenset({placement.vertex(number)})
    return own.union(*(_subtree(placement, child) for child in placement.children[number]))


def neighbours(placement: Placement) -> dict[int, dict[int, int]]:
    """Of each device of a job those that it exchanges packets with: of a NIC PARENT, RING_NEXT and RING_PREVIOUS, as far as it has
    them; of a switch its children by their bits, and not the switch parent it."""
    found = {node: _nic_neighbours(placement, node, place) for node, place in placement.places.items()}
    for switch, children in placement.children.items():
        found[placement.vertex(switch)] = dict(enumerate(_representative(placement, child) for child in children))
    return found


def _nic_neighbours(placement: Placement, node: int, place: Place) -> dict[int, int]:
    found = {}
    if place.ring:
        index = place.ring.index(node)
        found = {RING_NEXT: place.ring[(index + 1) % len(place.ring)], RING_PREVIOUS: place.ring[index - 1]}
    if place.hops and (not place.ring or node == place.ring[-1]):  # only the last node of a ring speaks parent
        found[PARENT] = placement.vertex(place.hops[0].switch)
    return found


def _representative(placement: Placement, child: Child) -> int:
    """The device that speaks for a child of a switch: the last node of a ring."""
    kind, number = child
    if kind == "ring":
        return placement.ring_of(number)[-1]
    return number if kind == "node" else placement.vertex(number)
