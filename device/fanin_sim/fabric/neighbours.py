"""Who is who in a job: the neighbours of each device, and whom the bits mean by which a device names others.

Devices are vertices of the fabric: NICs first, then switches. The kinds of bits are those of `engine.control.blame`.
"""

from __future__ import annotations

from typing import NamedTuple

from fanin_sim.fabric.placement import Below, Place, Placement

NOBODY = -1
ABOVE, NEXT, PREVIOUS = range(3)  # the neighbours of a NIC; a switch has its children, by their bits


class Level(NamedTuple):
    """Whom a NIC means by the bits of a kind: `children` of a device `above` (in a ring: of nobody), each with all that
    hang on it. All bits together may also mean the device above: who does not hear it hears none of them."""

    above: int
    children: tuple[frozenset[int], ...]


def levels_of(placement: Placement, node: int) -> list[Level]:
    """The kinds 1, 2, ... of a node's NIC."""
    place = placement.places[node]
    levels = [Level(NOBODY, tuple(frozenset({n}) for n in place.ring))] if place.ring else []
    return levels + [_level(placement, hop.switch) for hop in place.hops]


def _level(placement: Placement, switch: int) -> Level:
    return Level(placement.vertex(switch), tuple(_hanging_on(placement, below) for below in placement.children[switch]))


def _hanging_on(placement: Placement, below: Below) -> frozenset[int]:
    """A child of a switch, with all below it."""
    kind, number = below
    if kind == "node":
        return frozenset({number})
    if kind == "ring":
        return frozenset(placement.ring_of(number))
    own = frozenset({placement.vertex(number)})
    return own.union(*(_hanging_on(placement, child) for child in placement.children[number]))


def neighbours(placement: Placement) -> dict[int, dict[int, int]]:
    """Of each device of a job those that it exchanges packets with: of a NIC ABOVE, NEXT and PREVIOUS, as far as it has
    them; of a switch its children by their bits, and not the switch above it."""
    found = {node: _of_node(placement, node, place) for node, place in placement.places.items()}
    for switch, children in placement.children.items():
        found[placement.vertex(switch)] = dict(enumerate(_speaker(placement, below) for below in children))
    return found


def _of_node(placement: Placement, node: int, place: Place) -> dict[int, int]:
    found = {}
    if place.ring:
        index = place.ring.index(node)
        found = {NEXT: place.ring[(index + 1) % len(place.ring)], PREVIOUS: place.ring[index - 1]}
    if place.hops and (not place.ring or node == place.ring[-1]):  # only the last node of a ring speaks above
        found[ABOVE] = placement.vertex(place.hops[0].switch)
    return found


def _speaker(placement: Placement, below: Below) -> int:
    """The device that speaks for a child of a switch: the last node of a ring."""
    kind, number = below
    if kind == "ring":
        return placement.ring_of(number)[-1]
    return number if kind == "node" else placement.vertex(number)
