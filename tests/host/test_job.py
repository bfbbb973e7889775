"""The description of a job, and the place of each rank in it."""

from __future__ import annotations

import dataclasses

import pytest

from fanin import Job, JobNode, errors
from fanin.verbs.membership import Hop
from fanin.verbs.wc import NODES
from fanin_wire.abi import Route

NODES_OF_SIX = (JobNode("10.0.0.1", (0, 1)), JobNode("10.0.0.2", (2, 5)), JobNode("10.0.0.3", (3, 4)))
SIX = Job(jid=3, key=4, nodes=NODES_OF_SIX, switch="10.0.0.9")


def test_round_trip_through_its_dictionary():
    assert Job.from_dict(SIX.to_dict()) == SIX
    assert SIX.size == 6


@pytest.mark.parametrize(
    ("parts", "route"),
    [
        ({}, "tree"),
        ({"switch": None}, "ring"),
        ({"route": "ring"}, "ring"),
        ({"nodes": (JobNode("10.0.0.1", (0,)),)}, "local"),
        ({"nodes": (JobNode("10.0.0.1", (0,)),), "route": "tree"}, "local"),
    ],
    ids=str,
)
def test_chosen_route(parts, route):
    assert dataclasses.replace(SIX, **parts).chosen_route == route


def test_membership_in_a_tree():
    place = SIX.membership(5)
    assert (place.route, place.rank_bitmap, place.rank_mask) == (Route["TREE"], 0b10, 0b11)
    assert (place.node_index, place.node_count) == (1, 3)
    assert place.hops == (Hop(0x0A000009, 1, 0b111),)
    assert place.next_address == place.previous_address == 0


def test_membership_in_a_ring():
    ring = dataclasses.replace(SIX, route="ring")
    neighbours = [
        (ring.membership(rank).previous_address & 255, ring.membership(rank).next_address & 255) for rank in (0, 2, 3)
    ]
    assert neighbours == [(3, 2), (1, 3), (2, 1)]
    assert ring.membership(0).hops == ()


def test_digest_covers_everything_that_must_agree():
    variants = [
        SIX,
        dataclasses.replace(SIX, slots=64),
        dataclasses.replace(SIX, chunk=1024),
        dataclasses.replace(SIX, route="ring"),
        dataclasses.replace(SIX, switch="10.0.0.8"),
        dataclasses.replace(SIX, nodes=NODES_OF_SIX[::-1]),
    ]
    assert len({job.digest() for job in variants}) == len(variants)
    assert dataclasses.replace(SIX, route="tree").digest() == SIX.digest()  # what "auto" means here
    assert len(SIX.digest()) == 16


def test_missing_ranks_by_bits():
    assert SIX.missing_ranks(5, [1], kind=0) == (5,)
    assert SIX.missing_ranks(5, [0, 2], kind=NODES) == (0, 1, 3, 4)
    assert SIX.missing_ranks(5, [7, 63], kind=0) == ()
    assert SIX.names((5,)) == "rank 5 (node 10.0.0.2)"


def test_rank_that_is_no_member():
    with pytest.raises(errors.InvalidRequest, match="rank 6"):
        SIX.membership(6)
