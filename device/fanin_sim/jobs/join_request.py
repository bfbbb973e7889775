"""The fields of a JOIN that follow from the place of a node in the fabric."""

import numpy as np

from fanin_sim.fabric.placement import Placement
from fanin_sim.fabric.simulation import Simulation
from fanin_wire import abi


def join_of_node(simulation: Simulation, placement: Placement, node: int) -> np.void:
    """A record of abi.JOIN with route, neighbours and hops; the caller fills in the fields of the job and the rank."""
    place, nodes = placement.places[node], placement.nodes
    request = np.zeros(1, abi.JOIN)[0]
    request["route"] = place.route
    request["flags"] = abi.JobFlag.FIXED_START if place.fixed_start else 0
    request["node_index"], request["node_count"] = nodes.index(node), len(nodes)
    if place.ring:
        _fill_ring(request, simulation, place.ring, node)
    request["hop_count"] = len(place.hops)
    for level, hop in enumerate(place.hops):
        request["hop"][level] = (simulation.switches[hop.switch].address, hop.bit, hop.mask)
    return request


def _fill_ring(request: np.void, simulation: Simulation, ring: tuple[int, ...], node: int) -> None:
    index = ring.index(node)
    request["node_index"], request["node_count"] = index, len(ring)
    request["next_address"] = simulation.nics[ring[(index + 1) % len(ring)]].address
    request["previous_address"] = simulation.nics[ring[index - 1]].address
