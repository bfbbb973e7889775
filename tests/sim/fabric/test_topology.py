"""Topologies, and the placement of a job."""

import pytest

from fanin_sim.fabric.placement import Hop, Placement
from fanin_sim.fabric.topology import NONE, Topology
from fanin_wire.abi import Route
from fanin_wire.association import Device, Ring
from tests.sim.shapes import MIXED, UNEVEN


def test_fan_out() -> None:
    tree = Topology.fan_out(4, 8, 8)
    assert (tree.nodes, tree.switches) == (256, 37)
    assert tree.above[:6] == (NONE, 0, 0, 0, 0, 1)
    assert [tree.homes.count(switch) for switch in range(5, 37)] == [8] * 32
    assert {tree.depth(node) for node in range(256)} == {3}


def test_fewer_nodes_are_dealt_out_evenly() -> None:
    tree = Topology.fan_out(3, 4, nodes=10)
    assert [tree.homes.count(switch) for switch in (1, 2, 3)] == [4, 3, 3]
    with pytest.raises(ValueError, match="13 nodes do not fit"):
        Topology.fan_out(3, 4, nodes=13)


def test_path_of_a_packet() -> None:
    tree = Topology.fan_out(2, 2, 2)
    first, last = 8, 14  # vertices of the top and of the last switch
    assert tree.path(0, 1) == [0, 11, 1]
    assert tree.path(0, 7) == [0, 11, 9, first, 10, last, 7]
    assert tree.path(0, first) == [0, 11, 9, first]
    assert tree.path(first, 7) == [first, 10, last, 7]
    assert Topology.direct(4).path(3, 0) == [3, 0]


def test_hops_end_at_the_lowest_common_switch() -> None:
    tree = Topology.fan_out(2, 2, 2)
    within = Placement(tree, [0, 1], Route.TREE).places
    assert within[1].hops == (Hop(3, 1, 0b11),)
    across = Placement(tree, [1, 2], Route.TREE).places
    assert across[2].hops == (Hop(4, 0, 0b1), Hop(1, 1, 0b11))
    whole = Placement(tree, list(range(8)), Route.TREE).places
    assert whole[6].hops == (Hop(6, 0, 0b11), Hop(2, 1, 0b11), Hop(0, 1, 0b11))


def test_a_job_may_end_higher_than_it_must() -> None:
    places = Placement(Topology.fan_out(2, 2, 2), [0, 1], Route.TREE, top=0).places
    assert places[0].hops == (Hop(3, 0, 0b11), Hop(1, 0, 0b1), Hop(0, 0, 0b1))


def test_bits_follow_the_order_of_the_nodes() -> None:
    """Children of the top: node 0, switch 1, switch 2, node 4."""
    places = Placement(UNEVEN, [0, 1, 2, 3, 4], Route.TREE).places
    assert [places[node].hops[-1].bit for node in range(5)] == [0, 1, 2, 2, 3]
    assert {len(places[node].hops) for node in range(5)} == {1, 2, 3}


def test_nodes_below_a_plain_switch_form_a_ring() -> None:
    places = Placement(MIXED, list(range(6)), Route.TREE).places
    assert [places[node].route for node in range(6)] == [Route.TREE, *[Route.RING] * 3, *[Route.TREE] * 2]
    for node in (1, 2, 3):
        assert places[node].ring == (1, 2, 3)
        assert places[node].fixed_start
        assert places[node].hops == (Hop(0, 1, 0b1111),)
    assert places[5].hops == (Hop(0, 3, 0b1111),)  # alone below its switch: no ring


def test_plain_switches_alone_make_no_tree() -> None:
    with pytest.raises(ValueError, match="use route ring"):
        Placement(Topology.fan_out(2, 2, plain=(0, 1, 2)), [0, 1, 2, 3], Route.TREE)


def test_too_large_fabrics_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match=r"65 children .* add a level"):
        Placement(Topology.one_switch(65), list(range(65)), Route.TREE)
    with pytest.raises(ValueError, match="make the tree flatter"):
        Placement(Topology.fan_out(*[1] * 9, 2), [0, 1], Route.TREE, top=0)


def test_order_of_reduction() -> None:
    ranks = {node: [2 * node, 2 * node + 1] for node in range(6)}
    nics = [Device((2 * node, 2 * node + 1)) for node in range(6)]
    mixed = Placement(MIXED, list(range(6)), Route.TREE).path(ranks, rotates=True)
    assert mixed == Device((nics[0], Ring(tuple(nics[1:4]), rotates=False), nics[4], nics[5]))
    ring = Placement(MIXED, list(range(6)), Route.RING).path(ranks, rotates=True)
    assert ring == Ring(tuple(nics), rotates=True)
    assert Placement(MIXED, [2], Route.LOCAL).path(ranks, rotates=True) == nics[2]
