"""Results by multicast between real devices: the switch sends each once; hosts outside the group get them too."""

import shutil
import time

import numpy as np
import pytest

from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import inside
from tests.e2e.fabrics import BOUND_S, Bench, assert_released, statuses
from tests.e2e.members import job, run_ranks

NODES, RANKS, ELEMENTS = 3, 3, 1 << 18  # of f32: 256 segments
SEGMENTS = ELEMENTS * 4 // 4096
SWITCH = "switch"


@pytest.fixture(scope="module")
def running(bench: Bench, namespaces_allowed: None) -> Running:
    return bench.up(Shape(NODES, 1, netns=True))


def reduce_until(running: Running, members: list, enough: int, path: str) -> dict[str, dict[str, int]]:
    """Allreduce, right each time, until the switch has sent so many packets more to its group (path "group"), or to its
    children; its packets since then, by peer."""
    before, end = statuses(running)[SWITCH]["links"], time.monotonic() + BOUND_S
    while True:
        assert run_ranks(len(members), lambda rank: reduce(members[rank]), BOUND_S) == [True] * len(members)
        after = statuses(running)[SWITCH]["links"]
        grown = {peer: row["tx_packets"] - before.get(peer, {}).get("tx_packets", 0) for peer, row in after.items()}
        to_group = grown.pop(group_of(running), 0)
        if (to_group if path == "group" else min(grown.values())) >= enough:
            return {"group": to_group, "children": sum(grown.values())}
        assert time.monotonic() < end, f"{to_group} packets to the group, {grown} to children"


def group_of(running: Running) -> str:
    return running.fabric.device(SWITCH).group


def reduce(member) -> bool:
    array, result = member.alloc(ELEMENTS, np.float32), member.alloc(ELEMENTS, np.float32)
    array[:] = 1
    member.allreduce(array, out=result, timeout=BOUND_S)
    return bool((result == RANKS).all())


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_result_leaves_the_switch_once(bench: Bench, namespaces_allowed: None, lanes: int) -> None:
    fabric = bench.up(Shape(NODES, 1, netns=True, lanes=lanes))
    with job(fabric, RANKS, "tree") as members:
        sent = reduce_until(fabric, members, 10 * SEGMENTS, "group")
        assert sent["children"] < sent["group"]  # at the start, and keep-alives
    assert_released(fabric)
    bench.down(fabric)


def test_without_multicast_each_result_is_sent_to_each_nic(bench: Bench, namespaces_allowed: None) -> None:
    fabric = bench.up(Shape(NODES, 1, netns=True, multicast=False))
    assert group_of(fabric) == ""
    with job(fabric, RANKS, "tree") as members:
        sent = reduce_until(fabric, members, SEGMENTS, "children")
    assert sent["group"] == 0
    bench.down(fabric)


def test_a_host_that_the_group_does_not_reach_is_served(running: Running) -> None:
    """First the group works; then a host leaves it, in the midst of messages; then it is back."""
    if shutil.which("nft") is None:
        pytest.skip("the program `nft` (nftables), to lose packets in the kernel")
    rule = f"ip daddr {group_of(running)} drop"
    rules = f"table ip deaf {{\nchain in {{\ntype filter hook input priority 0;\n{rule}\n}}\n}}\n"
    with job(running, RANKS, "tree") as members:
        reduce_until(running, members, SEGMENTS, "group")
        inside(running.fabric, "host1", "nft", "-f", "-", text=rules)
        try:
            reduce_until(running, members, 4 * SEGMENTS, "children")
        finally:
            inside(running.fabric, "host1", "nft", "delete", "table", "ip", "deaf")
        reduce_until(running, members, 4 * SEGMENTS, "group")
    assert_released(running)
