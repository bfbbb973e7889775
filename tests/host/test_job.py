"""The description of a job, and each rank's place in it, as the library computes it."""

import ipaddress

import pytest
from msgspec.structs import replace

from fanin import Job, JobNode, errors
from fanin.driver import ffi, library
from fanin.verbs.membership import Hop
from fanin.verbs.wc import NODES
from fanin_wire.abi import JobFlag, Route, Status

RANKS_OF_SIX = ((0, 1), (2, 5), (3, 4))
NODES_OF_SIX = tuple(JobNode(f"10.0.0.{n}", ranks, ("10.0.0.9",)) for n, ranks in enumerate(RANKS_OF_SIX, start=1))
BARE_SIX = tuple(replace(node, switches=()) for node in NODES_OF_SIX)
SIX = Job(jid=3, key=4, nodes=NODES_OF_SIX)
FIXED, WIDE = JobFlag.FIXED_START, JobFlag.WIDE
RUN, SHAPE = JobFlag.REPRODUCIBLE_RUN, JobFlag.REPRODUCIBLE_SHAPE


def test_round_trip_through_its_dictionary():
    whole = replace(SIX, reproducible="run", wide=True)
    assert Job.from_dict(whole.to_dict()) == whole
    assert whole.size == 6


@pytest.mark.parametrize(
    ("parts", "route"),
    [
        ({}, "tree"),
        ({"nodes": BARE_SIX}, "ring"),
        ({"nodes": (*NODES_OF_SIX[:2], BARE_SIX[2])}, "ring"),
        ({"nodes": tuple(replace(node, ring=1) for node in NODES_OF_SIX)}, "ring"),
        ({"route": "ring"}, "ring"),
        ({"nodes": (JobNode("10.0.0.1", (0,)),)}, "local"),
        ({"nodes": (JobNode("10.0.0.1", (0,)),), "route": "tree"}, "local"),
    ],
    ids=["switch", "none", "not of all", "one ring below a switch", "asked for", "one node", "one node, tree"],
)
def test_chosen_route(parts, route):
    assert replace(SIX, **parts).chosen_route == route


def test_membership_in_a_tree():
    place = SIX.membership(5)
    assert (place.route, place.rank_bitmap, place.rank_mask) == (Route.TREE, 0b10, 0b11)
    assert (place.node_index, place.node_count) == (1, 3)
    assert place.hops == (Hop(0x0A000009, 1, 0b111),)
    assert place.next_address == place.previous_address == 0


def test_membership_in_a_ring():
    ring = replace(SIX, route="ring")
    neighbours = [
        (ring.membership(rank).previous_address & 255, ring.membership(rank).next_address & 255) for rank in (0, 2, 3)
    ]
    assert neighbours == [(3, 2), (1, 3), (2, 1)]
    assert (ring.membership(0).hops, ring.membership(0).flags) == ((), 0)


@pytest.mark.parametrize(
    ("parts", "flags"),
    [
        ({}, 0),
        ({"wide": True}, WIDE),
        ({"reproducible": "run"}, RUN),
        ({"reproducible": "run", "wide": True}, RUN | WIDE),
        ({"reproducible": "shape"}, RUN | SHAPE | WIDE),
    ],
    ids=str,
)
def test_flags(parts, flags):
    assert replace(SIX, **parts).membership(0).flags == flags


# 10.0.1.1 above everything; 10.0.2.x and 10.0.3.x below it. Nodes 4 and 5 hang on the root itself.
UNEVEN = tuple(
    JobNode(f"10.1.0.{index}", (index,), tuple(f"10.0.{path}" for path in paths.split()))
    for index, paths in enumerate(
        ["3.1 2.1 1.1 0.1", "3.2 2.1 1.1 0.1", "3.1 2.1 1.1 0.1", "2.2 1.1 0.1", "1.1 0.1", "1.1 0.1", "2.2 1.1 0.1"]
    )
)
DEEP = Job(1, 1, UNEVEN)


def hops(job: Job, rank: int) -> list[tuple[str, int, int]]:
    """(last bytes of the address, bit, mask) of each hop."""
    return [(f"{hop.address >> 8 & 255}.{hop.address & 255}", hop.bit, hop.mask) for hop in job.membership(rank).hops]


def test_tree_of_uneven_depth():
    """Trimmed to 10.0.1.1, which all share; its children, by their first nodes: 2.1, 2.2, node 4, node 5."""
    assert hops(DEEP, 0) == [("3.1", 0, 0b11), ("2.1", 0, 0b11), ("1.1", 0, 0b1111)]
    assert hops(DEEP, 1) == [("3.2", 0, 0b1), ("2.1", 1, 0b11), ("1.1", 0, 0b1111)]
    assert hops(DEEP, 2) == [("3.1", 1, 0b11), ("2.1", 0, 0b11), ("1.1", 0, 0b1111)]
    assert hops(DEEP, 3) == [("2.2", 0, 0b11), ("1.1", 1, 0b1111)]
    assert hops(DEEP, 5) == [("1.1", 3, 0b1111)]
    assert hops(DEEP, 6) == [("2.2", 1, 0b11), ("1.1", 1, 0b1111)]


def test_missing_ranks_of_each_device_of_the_path():
    assert DEEP.missing_ranks(0, 0b10, 1) == (2,)
    assert DEEP.missing_ranks(0, 0b11, 2) == (0, 1, 2)
    assert DEEP.missing_ranks(0, 0b110, 3) == (3, 4, 6)
    assert DEEP.missing_ranks(5, 0b1, 1) == (0, 1, 2)
    assert DEEP.missing_ranks(5, 0b1, 2) == ()
    assert DEEP.missing_ranks(0, 1 << 63, 1) == ()


def test_many_nodes_below_few_switches():
    nodes = tuple(JobNode(f"10.2.{n // 64}.{n % 64}", (n,), (f"10.3.0.{n // 64}", "10.3.1.1")) for n in range(256))
    job = Job(1, 1, nodes)
    place = job.membership(200)
    assert (place.node_index, place.node_count) == (200, 256)
    assert [(hop.bit, hop.mask) for hop in place.hops] == [(8, (1 << 64) - 1), (3, 0b1111)]
    named = job.missing_names(200, Status.PEER_LOST, 0b100, 2)
    assert named.startswith("; missing on: node 10.2.2.0 (rank 128), node 10.2.2.1 (rank 129), ")
    assert named.endswith("node 10.2.2.7 (rank 135), 56 more ranks")


MIXED = Job(
    1,
    1,
    tuple(
        JobNode(f"10.1.0.{n}", (2 * n, 2 * n + 1), ("10.0.0.1",), ring)
        for n, ring in enumerate([None, 5, 5, 5, None, 8, 8])
    ),
)


def test_rings_below_a_switch():
    """Each ring is one child of the switch; all members get the path, the last node uses it."""
    alone, ring, last = MIXED.membership(0), MIXED.membership(4), MIXED.membership(6)
    assert (alone.route, alone.hops[0][1:], alone.flags) == (Route.TREE, (0, 0b1111), 0)
    assert (ring.route, ring.node_index, ring.node_count, ring.flags) == (Route.RING, 1, 3, FIXED)
    assert [address & 255 for address in (ring.previous_address, ring.next_address)] == [1, 3]
    assert (last.node_index, last.hops) == (2, ring.hops)
    assert ring.hops[0][1:] == (1, 0b1111)
    assert MIXED.membership(12).hops[0].bit == 3


def test_missing_ranks_around_rings():
    assert MIXED.missing_ranks(4, 0b1, 0) == (4,)
    assert MIXED.missing_ranks(4, 0b101, 1) == (2, 3, 6, 7)
    assert MIXED.missing_ranks(4, 0b1001, 2) == (0, 1, 10, 11, 12, 13)
    assert MIXED.missing_ranks(0, 0b10, 1) == (2, 3, 4, 5, 6, 7)


def test_digest_covers_everything_that_must_agree():
    variants = [
        SIX,
        replace(SIX, slots=64),
        replace(SIX, chunk=1024),
        replace(SIX, route="ring"),
        replace(SIX, reproducible="run"),
        replace(SIX, wide=True),
        replace(SIX, nodes=(replace(NODES_OF_SIX[0], address="10.0.0.7"), *NODES_OF_SIX[1:])),
        replace(SIX, nodes=BARE_SIX),
    ]
    assert len({job.membership(0).digest for job in variants}) == len(variants)
    assert replace(SIX, route="tree").membership(0).digest == SIX.membership(0).digest  # what "auto" means here
    assert len(SIX.membership(0).digest) == 16


def test_missing_ranks_by_bits():
    assert SIX.missing_ranks(5, 0b10, 0) == (5,)
    assert SIX.missing_ranks(5, 0b101, NODES) == (0, 1, 3, 4)
    assert replace(SIX, route="ring").missing_ranks(5, 0b101, NODES) == (0, 1, 3, 4)
    assert SIX.missing_ranks(5, 1 << 63 | 1 << 7, 0) == ()
    assert SIX.missing_names(2, Status.TIMEOUT, 0b10, 0) == "; missing: rank 5 (node 10.0.0.2)"
    assert SIX.missing_names(5, Status.TIMEOUT, 0b10, 0) == "; the others waited for this rank"
    assert SIX.missing_names(5, Status.OP_MISMATCH, 0b10, 0) == "; noticed at: rank 5 (node 10.0.0.2)"
    assert SIX.missing_names(5, Status.TIMEOUT, 1 << 63, 0) == ""


def test_rank_that_is_no_member():
    with pytest.raises(errors.InvalidRequest, match="rank 6"):
        SIX.membership(6)


def nodes(*paths: str, rings: tuple[int | None, ...] = ()) -> tuple[JobNode, ...]:
    """A node of one rank for each path of switches."""
    numbers = rings or (None,) * len(paths)
    return tuple(
        JobNode(f"10.1.{n // 200}.{n % 200}", (n,), tuple(path.split()), ring)
        for n, (path, ring) in enumerate(zip(paths, numbers, strict=True))
    )


MANY = ("10.0.0.1",) * 65
CONTRADICTIONS = [
    (nodes("10.0.0.1", ""), "tree", "share no offloading switch"),
    (nodes("10.0.0.2 10.0.0.1", "10.0.0.3 10.0.0.2 10.0.0.4 10.0.0.1", "10.0.0.1"), "tree", "10.0.0.2 has two parents"),
    (nodes("10.0.0.1 10.0.0.1", "10.0.0.1"), "auto", "node 10.1.0.0 has a switch twice"),
    (nodes("nowhere", "nowhere"), "auto", "not an IPv4 address"),
    (nodes(*MANY), "auto", "10.0.0.1 has more than 64 children"),
    (nodes("10.0.0.3 10.0.0.2", *["10.0.0.4 10.0.0.2"] * 65), "auto", "10.0.0.4 has more than 64 children"),
    (nodes(*[""] * 65), "auto", "a ring of 65 nodes"),
    (nodes(*MANY), "ring", "a ring of 65 nodes"),
    (nodes(*MANY, "10.0.0.1", rings=(*(1,) * 65, None)), "auto", "a ring of 65 nodes"),
    (nodes("10.0.0.2 10.0.0.1", "10.0.0.1", "10.0.0.1", rings=(1, 1, None)), "auto", "ring 1 have different switches"),
    (nodes(*[" ".join(f"10.0.{n}.{level}" for level in range(8)) + " 10.0.9.9" for n in range(2)]), "auto", "9 levels"),
    ((JobNode("10.1.0.1", tuple(range(65))),), "auto", "node 10.1.0.1 has 65 ranks"),
    (nodes("", ""), "local", "local needs all ranks on one node"),
    (nodes("", ""), "elsewhere", "'elsewhere' is no route"),
]


@pytest.mark.parametrize(("members", "route", "text"), CONTRADICTIONS, ids=[text for _, _, text in CONTRADICTIONS])
def test_paths_that_make_no_tree(members, route, text):
    with pytest.raises(errors.InvalidRequest, match=text):
        Job(1, 1, members, route=route)


WRONG_NUMBERS = [{"slots": 2}, {"slots": 48}, {"chunk": 1000}, {"jid": 1 << 32}, {"jid": 0}, {"key": -1}]


@pytest.mark.parametrize("parts", WRONG_NUMBERS, ids=str)
def test_numbers_are_checked(parts):
    with pytest.raises(errors.InvalidRequest, match="job description: "):
        replace(SIX, **parts)


def test_a_node_has_one_way():
    """Two descriptions of a node are one if they agree; switches above the job's top do not count."""
    twice = tuple(JobNode("10.0.0.1", (rank,), ("10.0.0.9",)) for rank in range(2))
    assert Job(1, 1, twice).membership(1).rank_mask == 0b11
    with pytest.raises(errors.InvalidRequest, match=r"two ranks of node .* have different paths"):
        Job(1, 1, (twice[0], replace(twice[1], switches=())))
    with pytest.raises(errors.InvalidRequest, match="ring -1"):
        Job(1, 1, (replace(twice[0], ring=-1), twice[1]))


def test_wrong_types_are_named():
    with pytest.raises(errors.InvalidRequest, match=r"Expected `int`, got `str` - at `\$.slots`"):
        Job.from_dict({**SIX.to_dict(), "slots": "many"})


def test_nodes_of_a_ring_are_put_together():
    """A ring of one node is none; nodes are in the order of their ranks, those of a ring one after the other."""
    apart = Job(1, 1, nodes(*["10.0.0.1"] * 4, rings=(1, None, 1, 2)))
    places = [apart.membership(rank) for rank in range(4)]
    assert [(place.route, place.node_index) for place in places] == [
        (Route.RING, 0),
        (Route.TREE, 2),
        (Route.RING, 1),
        (Route.TREE, 3),
    ]
    assert [place.hops[0].bit for place in places] == [0, 1, 0, 2]


def test_path_ends_at_the_lowest_shared_switch():
    job = Job(1, 1, nodes("10.0.1.1 10.0.0.1", "10.0.1.1 10.0.0.1"))
    assert job.membership(0).hops == (Hop(0x0A000101, 0, 0b11),)


def test_job_that_the_library_describes():
    whole = replace(MIXED, reproducible="run", wide=True, route="ring", slots=64, chunk=1024)
    for job in (SIX, whole, replace(SIX, reproducible="shape"), DEEP):
        assert Job.of(job.c) == replace(job, nodes=tuple(sorted(job.nodes, key=lambda node: node.ranks)))


@pytest.mark.parametrize("key", ["switch", "rail"])
def test_unknown_parts_are_refused(key):
    with pytest.raises(errors.InvalidRequest, match=key):
        Job.from_dict({**SIX.to_dict(), key: 1})
    with pytest.raises(errors.InvalidRequest, match=rf"`{key}` - at `\$.nodes\[0\]`"):
        Job.from_dict({**SIX.to_dict(), "nodes": [{"address": "10.0.0.1", "ranks": [0], key: 1}]})


def test_nodes_are_named_with_their_ranks():
    """Other nodes can only name a missing rank so."""
    lost = Status.PEER_LOST
    named = "; missing on: node 10.0.0.1 (ranks 0, 1), node 10.0.0.3 (ranks 3, 4)"
    assert SIX.missing_names(5, lost, 0b101, NODES) == named
    others = "; missing on: node 10.0.0.1 (rank 1), node 10.0.0.2 (ranks 2, 5)"
    assert SIX.missing_names(0, lost, 0b011, NODES) == others


def test_lost_device_is_named_before_the_ranks():
    lost, silent = Status.PEER_LOST, "does not answer, or was restarted"

    def names(address, missing=0, job=DEEP, rank=0):
        return job.missing_names(rank, lost, missing, 1, int(ipaddress.ip_address(address)))

    above, top = DEEP.nodes[0].switches[0], DEEP.nodes[0].switches[-1]
    assert names(above, 0b10).startswith(f"; the switch {above} above this node's NIC {silent}; cut off: node ")
    assert names(top) == f"; the switch {top} {silent}"
    assert names(DEEP.nodes[0].address) == f"; this node's NIC {DEEP.nodes[0].address} {silent}"
    assert names("10.0.0.2", 0b10, SIX) == f"; the NIC 10.0.0.2 {silent}; missing on: node 10.0.0.2 (ranks 2, 5)"
    assert SIX.missing_names(0, Status.TIMEOUT, 0b10, 0, 1) == "; missing: rank 1 (node 10.0.0.1)"


def test_as_many_ranks_are_named_as_there_is_room_for():
    lost = ffi.new("struct fanin_cqe *", {"status": Status.PEER_LOST, "missing": 0b111, "missing_kind": NODES})
    least = len("missing on: 5 ranks")
    for capacity in range(1, 200):
        words = ffi.new("char[]", b"x" * capacity)
        library().fanin_name_members(SIX.c, 0, lost, words, capacity)
        text = ffi.string(words).decode()
        assert len(text) < capacity
        assert text.endswith((")", " ranks")) or capacity <= least
    assert text.count("node") == 3


THREE = "3 NICs: 10.0.0.1, 10.0.0.2, 10.0.0.3"


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({}, f"route tree, {THREE} below switch 10.0.0.9"),
        ({"nodes": BARE_SIX}, f"route ring, {THREE}, for no switch is named above them"),
        ({"nodes": (*NODES_OF_SIX[:2], BARE_SIX[2])}, f"route ring, {THREE}, for no switch is named above all of them"),
        (
            {"nodes": tuple(replace(node, ring=1) for node in NODES_OF_SIX)},
            f"route ring, {THREE}, all on one plain switch",
        ),
        ({"route": "ring"}, f"route ring, {THREE}"),
        ({"nodes": (JobNode("10.0.0.1", (0,)),)}, "route local, NIC 10.0.0.1"),
    ],
    ids=["switch", "none", "not of all", "one ring below a switch", "asked for", "one node"],
)
def test_path_in_words(parts, path):
    """An unwanted ring says why it is not a tree: the switch may stand idle."""
    job = replace(SIX, **parts)
    assert job.path(0) == path
    assert job.path(0, 1024, 1500) == f"{path}; segments of 1024 bytes, MTU 1500"


def test_path_of_many_nics_has_its_end():
    """Names of NICs are left out, never the size of segments or the MTU."""
    nodes = tuple(JobNode(f"100.100.100.{100 + rank}", (rank,), ("100.100.100.99",)) for rank in range(60))
    path = replace(SIX, nodes=nodes).path(0, 4096, 9000)
    assert path.startswith("route tree, 60 NICs: 100.100.100.100, ")
    assert ", 52 more below switch 100.100.100.99; segments of 4096 bytes, MTU 9000" in path
