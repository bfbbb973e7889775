"""Placement of ranks on nodes, their route, and its description for the ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import fanin
from fanin_tools.cli.fabric import FabricOptions
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.generate import Shape, make
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.state import FabricState
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import place
from fanin_wire.abi import MAX_CHILDREN
from tests.fabric.fixtures import Up

STAR = make("star", Shape(nodes=4, ranks_per_node=4), "127.77.9")
CYCLE = make("cycle", Shape(nodes=4, ranks_per_node=4, direct=True), "127.77.9")


@pytest.mark.parametrize(
    ("size", "route", "blocks"),
    [
        (1, "auto", [(0,)]),
        (4, "auto", [(0,), (1,), (2,), (3,)]),
        (6, "tree", [(0, 1), (2, 3), (4,), (5,)]),
        (16, "ring", [tuple(range(start, start + 4)) for start in (0, 4, 8, 12)]),
        (3, "local", [(0, 1, 2)]),
    ],
)
def test_blocks_are_even(size: int, route: str, blocks: list[tuple[int, ...]]) -> None:
    assert list(place(STAR, size, route).ranks) == blocks


@given(st.integers(1, 16), st.sampled_from(["auto", "tree", "ring"]))
def test_every_rank_has_one_place(size: int, route: str) -> None:
    placement = place(STAR, size, route)
    assert [rank for ranks in placement.ranks for rank in ranks] == list(range(size))
    assert max(map(len, placement.ranks)) - min(map(len, placement.ranks)) <= 1


@pytest.mark.parametrize(
    ("fabric", "size", "asked", "taken"),
    [
        (STAR, 16, "auto", "tree"),
        (CYCLE, 16, "auto", "ring"),
        (STAR, 1, "auto", "local"),
        (STAR, 1, "tree", "local"),
        (STAR, 2, "ring", "ring"),
    ],
)
def test_route_is_resolved(fabric, size: int, asked: str, taken: str) -> None:
    assert place(fabric, size, asked).route == taken


def test_uneven_nodes_are_filled_to_their_room() -> None:
    small = replace(STAR.devices[1], ranks=1)
    fabric = replace(STAR, devices=(STAR.devices[0], small, *STAR.devices[2:]))
    assert [len(ranks) for ranks in place(fabric, 13, "tree").ranks] == [4, 1, 4, 4]


def test_no_room_is_named() -> None:
    with pytest.raises(ToolError, match=r"NO_RESOURCES: 17 ranks do not fit .* its 4 nodes take 4 each"):
        place(STAR, 17, "tree")
    with pytest.raises(ToolError, match=r"NO_RESOURCES: 5 ranks do not fit on nic0 of .*, which takes 4; ") as caught:
        place(STAR, 5, "local")
    assert "--nodes" not in str(caught.value)


def test_tree_needs_a_switch() -> None:
    with pytest.raises(ToolError, match="NOT_SUPPORTED: fabric cycle has no offloading switch"):
        place(CYCLE, 8, "tree")


def test_unknown_route_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="'mesh' is not a route"):
        place(STAR, 4, "mesh")


@pytest.mark.parametrize(("mtu", "chunk"), [(1280, 1024), (1500, 1024), (4195, 2048), (4196, 4096), (9000, 4096)])
def test_chunk_fits_the_mtu(mtu: int, chunk: int) -> None:
    assert job_file.chunk_for(mtu) == chunk


@pytest.mark.parametrize("route", ["tree", "ring", "local"])
def test_the_library_reads_the_job(state_root, route: str) -> None:
    placement = place(STAR, 4, route)
    running = Running(STAR, FabricState("star"))
    running.state.folder.mkdir(parents=True)
    job = fanin.Job.from_file(job_file.write(running, job_file.describe(running, placement)))
    assert job.chosen_route == route
    assert [node.ranks for node in job.nodes] == list(placement.ranks)


def test_every_incarnation_has_its_own_key(state_root) -> None:
    placement = place(STAR, 4, "tree")
    running = Running(STAR, FabricState("star"))
    jobs = [job_file.describe(running, placement) for _ in range(50)]
    assert len({(job["jid"], job["key"]) for job in jobs}) == 50


def test_environment_of_a_rank(up: Up, fabric) -> None:
    running = up(fabric)
    placement = place(fabric, 4, "tree")
    path = job_file.write(running, job_file.describe(running, placement))
    environment = job_file.environment(running, placement, 3, path)
    assert environment == {
        "FANIN_RANK": "3",
        "FANIN_SIZE": "4",
        "FANIN_LOCAL_RANK": "1",
        "FANIN_SOCKET": str(running.state.socket("nic1")),
        "FANIN_JOB": str(path),
        "FANIN_CONSEQUENCES": str(path.with_suffix(".exit-causes")),
    }


def test_one_host_takes_as_many_ranks_as_a_device() -> None:
    """`fanin fabric up --nodes 1` serves `fanin tune -n 4` and `mpirun -n 64`."""
    fabric = make("one", FabricOptions(nodes=1).shape(), "127.77.9")
    assert place(fabric, MAX_CHILDREN, "local").size == MAX_CHILDREN
    with pytest.raises(ToolError, match="NO_RESOURCES: 65 ranks do not fit") as caught:
        place(fabric, MAX_CHILDREN + 1, "local")
    assert "--ranks-per-node" not in str(caught.value)
    with pytest.raises(ToolError, match=r"more --nodes$"):
        place(make("star", Shape(nodes=2), "127.77.9"), 2 * MAX_CHILDREN + 1, "tree")
