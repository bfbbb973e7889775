"""What the shim tells a device when it joins is what the host library would tell it for the same job."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin.errors import InvalidRequest
from fanin.job import Job, JobNode
from fanin_tools.fabric import uplinks_file
from fanin_tools.fabric.generate import Shape, make
from fanin_wire.abi import Route
from tests.mpi.planner import ffi, library

SHAPES = (
    Shape(nodes=1),
    Shape(nodes=3),
    Shape(nodes=4, direct=True),
    Shape(nodes=8, fanout=(2, 2, 2)),
    Shape(nodes=6, fanout=(3, 2), plain_leaves=True),
    Shape(nodes=8, fanout=(2, 2, 2), plain_leaves=True),
)
ROUTES = {"auto": 255, **{name.lower(): int(Route[name]) for name in ("LOCAL", "TREE", "RING")}}
DIGEST = ("head", "digest", "qp", "hop")  # compared apart, or not part of a description
SUCCESS, MAX_COMPLAINT = 0, 160


def numbered(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


def rows(shape: Shape) -> list[tuple[str, int, tuple[str, ...]]]:
    """Address, ring and switches of each NIC of a fabric, from its file `ways`."""
    lines = uplinks_file.render(make("test", shape, "127.99.0")).splitlines()
    return [(words[1], int(words[2]), tuple(words[3:])) for words in map(str.split, lines)]


def by_shim(placed: list[tuple[str, int, tuple[str, ...]]], rank: int, route: str) -> dict | None:
    """The struct fanin_join of a rank; None if the places make no job."""
    places = ffi.new("struct place[]", len(placed))
    for place, (address, ring, switches) in zip(places, placed, strict=True):
        place.address, place.ring, place.hops = numbered(address), ring, len(switches)
        place.hop[0 : len(switches)] = list(map(numbered, switches))
    job = ffi.new("struct description *", {"jid": 5, "key": 6, "route": ROUTES[route], "chunk": 4096, "slots": 64})
    job.ranks, job.places = len(placed), places
    join, complaint = ffi.new("struct fanin_join *"), ffi.new("char[]", MAX_COMPLAINT)
    if library.fanin_mpi_membership(job, rank, join, complaint) != SUCCESS:
        assert ffi.string(complaint)
        return None
    return fields(join)


def fields(join: object) -> dict:
    names = [name for name, _ in ffi.typeof("struct fanin_join").fields if name not in DIGEST]
    values = {name: getattr(join, name) for name in names}
    return values | {"hops": [(hop.address, hop.bit, hop.mask) for hop in list(join.hop)[: join.hop_count]]}


def by_host_library(placed: list[tuple[str, int, tuple[str, ...]]], rank: int, route: str) -> dict | None:
    """The same from a job whose nodes come in the order that the shim gives them."""
    order: list[tuple[str, int, tuple[str, ...]]] = []
    for place in placed:
        if place not in order:
            same = [index for index, other in enumerate(order) if place[1] and other[1] == place[1]]
            order.insert(same[-1] + 1 if same else len(order), place)
    alone = [sum(other[1] == place[1] for other in order) == 1 for place in order]
    nodes = tuple(
        JobNode(
            place[0],
            tuple(index for index, other in enumerate(placed) if other == place),
            place[2],
            None if single or not place[1] else place[1],
        )
        for place, single in zip(order, alone, strict=True)
    )
    try:
        job = Job(5, 6, nodes, route=route, slots=64)
        return fields(job.membership(rank).to_c(0))
    except InvalidRequest:
        return None


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(SHAPES), st.sampled_from(sorted(ROUTES)))
def test_joins_are_those_of_the_host_library(data: st.DataObject, shape: Shape, route: str) -> None:
    nics = rows(shape)
    placed = data.draw(st.lists(st.sampled_from(nics), min_size=2, max_size=12))
    rank = data.draw(st.integers(0, len(placed) - 1))
    assert by_shim(placed, rank, route) == by_host_library(placed, rank, route)


def test_digests_tell_descriptions_apart() -> None:
    """All ranks of one job have the same; another route, place or number of ranks gives another."""

    def digest(placed: list[tuple[str, int, tuple[str, ...]]], rank: int) -> tuple[int, ...]:
        places = ffi.new("struct place[]", len(placed))
        for place, (address, _, _) in zip(places, placed, strict=True):
            place.address = numbered(address)
        job = ffi.new("struct description *", {"jid": 5, "route": 255, "chunk": 4096, "ranks": len(placed)})
        job.places = places
        join = ffi.new("struct fanin_join *")
        assert library.fanin_mpi_membership(job, rank, join, ffi.new("char[]", MAX_COMPLAINT)) == SUCCESS
        return tuple(join.digest)

    nics = rows(Shape(nodes=4, direct=True))
    assert digest(nics, 0) == digest(nics, 3)
    assert len({digest(nics, 0), digest(nics[:3], 0), digest([*nics[:3], nics[0]], 0)}) == 3


@pytest.mark.parametrize("ranks", [64, 65])
def test_a_node_holds_64_ranks(ranks: int) -> None:
    nics = rows(Shape(nodes=1))
    assert (by_shim(nics * ranks, 0, "auto") is None) == (ranks > 64)
