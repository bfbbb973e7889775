"""The uplinks of a job's nodes on trees of switches, some of them plain."""

import pytest
from msgspec.structs import replace

from fanin_tools.errors import UsageError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Shape, make
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.state import FabricState
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import place
from fanin_wire import abi
from fanin_wire.settings import JobSettings

PREFIX = "127.77.9"
DEEP = make("deep", Shape(8, 2, fanout=(2, 2, 2)), PREFIX)
MIXED = make("mixed", Shape(6, 1, fanout=(2, 3), plain_leaves=True), PREFIX)
ONE_PLAIN = make("plain", Shape(4, 1, fanout=(4,), plain_leaves=True), PREFIX)
STAR = make("star", Shape(4, 4), PREFIX)


def addresses(fabric: Fabric, *names: str) -> tuple[str, ...]:
    return tuple(fabric.device(name).address for name in names)


def test_paths_lead_to_the_top_lowest_first() -> None:
    placement = place(DEEP, 16, "auto")
    assert placement.route == "tree"
    assert [uplink.ring for uplink in placement.uplinks] == [None] * 8
    assert placement.uplinks[0].switches == addresses(DEEP, "switch-0-0", "switch-0", "switch")
    assert placement.uplinks[7].switches == addresses(DEEP, "switch-1-1", "switch-1", "switch")


@pytest.mark.parametrize(
    ("size", "path"), [(2, ["switch-0-0"]), (3, ["switch-0-0", "switch-0"]), (5, ["switch-0-0", "switch-0", "switch"])]
)
def test_a_small_job_ends_at_the_lowest_switch_above_all_its_nodes(size: int, path: list[str]) -> None:
    assert place(DEEP, size, "tree").uplinks[0].switches == addresses(DEEP, *path)


def test_ranks_follow_the_nodes_in_order() -> None:
    placement = place(DEEP, 12, "tree")
    assert [nic.name for nic in placement.nics] == [f"nic{node}" for node in range(8)]
    assert [rank for ranks in placement.ranks for rank in ranks] == list(range(12))


def test_paths_may_differ_in_length() -> None:
    flat = replace(
        DEEP,
        links=tuple(replace(link, ends=("nic7", "switch")) if "nic7" in link.ends else link for link in DEEP.links),
    )
    placement = place(flat, 8, "tree")
    assert placement.nics[0].name == "nic7"
    assert placement.uplinks[0].switches == addresses(flat, "switch")
    assert placement.uplinks[1].switches == addresses(flat, "switch-0-0", "switch-0", "switch")


def test_nics_on_plain_switches_form_rings_below_the_switch() -> None:
    placement = place(MIXED, 6, "auto")
    assert placement.route == "tree"
    assert [uplink.ring for uplink in placement.uplinks] == [0, 0, 0, 1, 1, 1]
    assert {uplink.switches for uplink in placement.uplinks} == {addresses(MIXED, "switch")}


def test_a_nic_alone_on_its_plain_switch_is_a_child_itself() -> None:
    assert [uplink.ring for uplink in place(MIXED, 4, "tree").uplinks] == [0, 0, 0, None]


def test_one_ring_alone_needs_no_switch() -> None:
    assert place(MIXED, 3, "auto").route == "ring"
    assert place(MIXED, 3, "tree").uplinks[0].switches == addresses(MIXED, "switch")


def test_only_plain_switches_make_a_ring() -> None:
    assert place(ONE_PLAIN, 4, "auto").route == "ring"
    with pytest.raises(UsageError, match="NOT_SUPPORTED: fabric plain has no offloading switch above all 4 nodes"):
        place(ONE_PLAIN, 4, "tree")


def test_a_ring_has_a_limit_and_a_tree_has_not() -> None:
    large = make("large", Shape(128, 1, fanout=(4, 32)), PREFIX)
    assert place(large, 128, "auto").route == "tree"
    with pytest.raises(UsageError, match="NOT_SUPPORTED: a ring of 128 nodes"):
        place(large, 128, "ring")


@pytest.mark.parametrize(
    ("route", "mode", "chunk", "slots"),
    [("tree", "none", 4096, 64), ("local", "none", abi.LOCAL_CHUNK, 16), ("local", "run", abi.LOCAL_CHUNK, 16)],
)
def test_segments_that_no_packet_carries_are_longer_and_fewer(route: str, mode: str, chunk: int, slots: int) -> None:
    job = job_file.describe(Running(STAR, FabricState("any")), place(STAR, 4, route), JobSettings(64, mode))
    assert (job["chunk"], job["slots"]) == (chunk, slots)


@pytest.mark.parametrize(
    ("fabric", "route", "switches", "rings"),
    [
        (STAR, "tree", [list(addresses(STAR, "switch"))] * 4, [None] * 4),
        (STAR, "ring", [[]] * 4, [None] * 4),
        (STAR, "local", [[]], [None]),
        (MIXED, "tree", [list(addresses(MIXED, "switch"))] * 4, [0, 0, 0, None]),
    ],
)
def test_the_job_says_what_lies_above_each_node(
    state_root, fabric: Fabric, route: str, switches: list[list[str]], rings: list[int | None]
) -> None:
    job = job_file.describe(Running(fabric, FabricState("any")), place(fabric, 4, route), JobSettings(64, "run", True))
    assert (job["route"], job["slots"], job["reproducible"], job["wide"]) == (
        route,
        16 if route == "local" else 64,
        "run",
        True,
    )
    nodes = job["nodes"]
    assert isinstance(nodes, list)
    assert [node["switches"] for node in nodes] == switches
    assert [node["ring"] for node in nodes] == rings
