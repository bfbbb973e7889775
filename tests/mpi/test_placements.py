"""What ranks of an MPI job tell their devices at the join: libfanin computes it from each rank's place."""

import ipaddress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin import driver
from fanin.driver import ffi
from fanin_tools.fabric import tree
from fanin_tools.fabric.generate import Shape, make
from fanin_wire.abi import JobFlag, Route

library: Any = driver.library()

SHAPES = (
    Shape(nodes=1),
    Shape(nodes=3),
    Shape(nodes=4, direct=True),
    Shape(nodes=8, fanout=(2, 2, 2)),
    Shape(nodes=6, fanout=(3, 2), plain_leaves=True),
    Shape(nodes=8, fanout=(2, 2, 2), plain_leaves=True),
)
ROUTES = {"auto": 255, "local": Route.LOCAL, "tree": Route.TREE, "ring": Route.RING}
SUCCESS = 0
Nic = tuple[str, int, tuple[str, ...]]  # address, ring (0: none), switches above it (lowest first)


def number(address: str) -> int:
    """In host order."""
    return int(ipaddress.IPv4Address(address))


def nics_of(shape: Shape) -> list[Nic]:
    """NICs from the fabric's file of uplinks."""
    lines = tree.render_uplinks(make("test", shape, "127.99.0")).splitlines()
    return [(words[1], int(words[2]), tuple(words[3:])) for words in map(str.split, lines)]


def describe(placed: list[Nic], rank: int, route: str = "auto") -> tuple[Any, str]:
    """The struct fanin_join of a rank, and "" or the complaint about the places of all ranks."""
    places = ffi.new("struct fanin_place[]", len(placed))
    for place, (address, ring, switches) in zip(places, placed, strict=True):
        place.address, place.ring, place.hops = number(address), ring, len(switches)
        place.hop[0 : len(switches)] = list(map(number, switches))
    job = ffi.new("struct fanin_job *", {"jid": 5, "key": 6, "route": int(ROUTES[route]), "chunk": 4096, "slots": 64})
    job.ranks, job.places = len(placed), places
    join = ffi.new("struct fanin_join *")
    if library.fanin_describe(job, rank, join) == SUCCESS:
        return join, ""
    said = ffi.string(library.fanin_complaint()).decode()
    assert said
    return None, said


def hops(join: Any) -> list[tuple[int, int, int]]:
    """Address, bit and mask of each level above a node."""
    return [(hop.address, hop.bit, hop.mask) for hop in list(join.hop)[: join.hop_count]]


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(SHAPES), st.sampled_from(sorted(ROUTES)))
def test_all_ranks_describe_one_job(data: st.DataObject, shape: Shape, route: str) -> None:
    """All get a description, or all the same complaint. Bits are unique and fill their masks; rings close."""
    nics = nics_of(shape)
    placed = data.draw(st.lists(st.sampled_from(nics), min_size=2, max_size=12))
    described = [describe(placed, rank, route) for rank in range(len(placed))]
    assert len({complaint for _, complaint in described}) == 1
    if described[0][1]:
        return
    joins = [join for join, _ in described]
    assert {(join.jid, join.key, join.slots, join.chunk) for join in joins} == {(5, 6, 64, 4096)}
    assert len({tuple(join.digest) for join in joins}) == 1
    check_ranks_of_nodes(placed, joins)
    check_rings(placed, joins)
    check_switches(joins)


def check_ranks_of_nodes(placed: list[Nic], joins: list[Any]) -> None:
    """The ranks of a node have its bits in their order."""
    for nic in set(placed):
        bits = [join.rank_bitmap for join, place in zip(joins, placed, strict=True) if place == nic]
        assert bits == [1 << bit for bit in range(len(bits))]
        masks = {join.rank_mask for join, place in zip(joins, placed, strict=True) if place == nic}
        assert masks == {(1 << len(bits)) - 1}


def check_rings(placed: list[Nic], joins: list[Any]) -> None:
    """A node is the previous one of its next node, whose index follows."""
    by_address = {number(place[0]): join for join, place in zip(joins, placed, strict=True)}
    for address, join in by_address.items():
        if join.route != Route.RING:
            assert join.next_address == join.previous_address == 0
            continue
        following = by_address[join.next_address]
        assert following.previous_address == address
        assert following.node_index == (join.node_index + 1) % join.node_count
        assert following.node_count == join.node_count


def check_switches(joins: list[Any]) -> None:
    """The children of a switch have all the bits of its mask, and no other."""
    bits: dict[int, set[int]] = {}
    masks: dict[int, set[int]] = {}
    for join in joins:
        for address, bit, mask in hops(join):
            bits.setdefault(address, set()).add(bit)
            masks.setdefault(address, set()).add(mask)
    for address, found in bits.items():
        assert masks[address] == {(1 << len(found)) - 1}
        assert found == set(range(len(found)))


def test_a_tree_of_three_nodes() -> None:
    """Two ranks on the second node, which comes first: nodes are ordered by their first ranks."""
    nics = nics_of(Shape(nodes=3))
    switch = number(nics[0][2][0])
    placed = [nics[1], nics[0], nics[1], nics[2]]
    found = [(hops(describe(placed, rank)[0]), describe(placed, rank)[0].rank_bitmap) for rank in range(4)]
    assert found == [([(switch, 0, 7)], 1), ([(switch, 1, 7)], 1), ([(switch, 0, 7)], 2), ([(switch, 2, 7)], 1)]
    assert describe(placed, 0)[0].route == Route.TREE


def test_rings_below_a_tree() -> None:
    """Nodes on a plain switch form a ring, which is one child of the switch above. A ring of one node is none."""
    nics = nics_of(Shape(nodes=6, fanout=(3, 2), plain_leaves=True))
    joins = [describe(nics, rank)[0] for rank in range(6)]
    assert [join.route for join in joins] == [Route.RING] * 6
    assert [join.node_count for join in joins] == [joins[0].node_count] * 6
    assert all(join.flags & JobFlag.FIXED_START for join in joins)
    size = joins[0].node_count
    assert {hops(join)[0][1:] for join in joins} == {(bit, (1 << 6 // size) - 1) for bit in range(6 // size)}
    alone = describe([nics[0], nics[size]], 0)[0]
    assert (alone.route, alone.next_address) == (Route.TREE, 0)


def test_ranks_of_one_node_need_no_way() -> None:
    nic = nics_of(Shape(nodes=3))[0]
    join = describe([nic, nic], 1)[0]
    assert (join.route, join.rank_bitmap, join.rank_mask, join.hop_count) == (Route.LOCAL, 2, 3, 0)


@pytest.mark.parametrize(
    ("shape", "route", "words"),
    [
        (Shape(nodes=3), "local", "all ranks on one node"),
        (Shape(nodes=4, direct=True), "tree", "share no offloading switch"),
    ],
)
def test_places_that_make_no_job_are_refused(shape: Shape, route: str, words: str) -> None:
    assert words in describe(nics_of(shape), 0, route)[1]


def test_ways_that_make_no_tree_are_refused() -> None:
    """Two nodes share a switch, but differ above it."""
    placed = [("10.0.0.1", 0, ("10.1.0.1", "10.2.0.1", "10.3.0.1")), ("10.0.0.2", 0, ("10.1.0.1", "10.2.0.2"))]
    placed.append(("10.0.0.3", 0, ("10.2.0.2", "10.3.0.1")))
    assert describe(placed, 0, "tree")[1]


def test_digests_tell_descriptions_apart() -> None:
    """All ranks of one job have the same; another route, place or number of ranks gives another."""
    nics = nics_of(Shape(nodes=4, direct=True))

    def digest(placed: list[Nic], rank: int) -> tuple[int, ...]:
        return tuple(describe(placed, rank)[0].digest)

    assert digest(nics, 0) == digest(nics, 3)
    assert len({digest(nics, 0), digest(nics[:3], 0), digest([*nics[:3], nics[0]], 0)}) == 3


@pytest.mark.parametrize("ranks", [64, 65])
def test_a_node_holds_64_ranks(ranks: int) -> None:
    nics = nics_of(Shape(nodes=1))
    assert bool(describe(nics * ranks, 0)[1]) == (ranks > 64)


@pytest.mark.parametrize(("ranks", "hops", "rank"), [(0, 0, 0), (1, 9, 0), (2, 0, 2)], ids=["none", "deep", "outside"])
def test_a_job_that_makes_no_sense_is_refused(ranks: int, hops: int, rank: int) -> None:
    places = ffi.new("struct fanin_place[]", [{"address": 1, "hops": hops}] * max(1, ranks))
    job = ffi.new("struct fanin_job *", {"jid": 1, "route": ROUTES["auto"], "chunk": 4096, "slots": 64})
    job.ranks, job.places = ranks, places
    assert library.fanin_describe(job, rank, ffi.new("struct fanin_join *")) != SUCCESS
    assert ffi.string(library.fanin_complaint())
