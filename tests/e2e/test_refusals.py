"""Jobs that can not be formed: each rank learns the reason, and nothing stays leased."""

import contextlib
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from fanin import Communicator, Job, JobNode
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch.placement import Placement
from tests.e2e.fabrics import BOUND_S, Bench, assert_released, statuses
from tests.e2e.members import across, describe, errors_of, job, run_ranks, socket_of

NODES, RANKS = 4, 8
LOCAL_RANKS = RANKS // NODES
QUOTA = 16  # slots of every device
MIN_LEASE = 4  # slots of a lease
GRANTS = (8, 4, 4)  # to jobs that ask for all: each gets a part of what is free, the last the rest
LOCAL_GRANTS = (4, 4)  # of long chunks, which take two slots each
ROUTES = [("tree", RANKS), ("ring", RANKS), ("local", LOCAL_RANKS)]
ASKED = {"tree": "256 slots of 4096", "ring": "256 slots of 4096", "local": "64 slots of 16384"}


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, LOCAL_RANKS, slots=QUOTA))


def join(running: Running, placement: Placement, of: Callable[[int], Job]) -> list[object]:
    """Every rank joins the job that `of(rank)` describes, and leaves again; its error, or True."""

    def act(rank: int) -> bool:
        with Communicator(of(rank), rank, socket_of(running, placement, rank), timeout=BOUND_S):
            return True

    return run_ranks(placement.size, act)


@pytest.mark.parametrize(("route", "size"), ROUTES)
def test_lease_is_refused_when_all_slots_are_leased(running: Running, route: str, size: int) -> None:
    placement, wanted = describe(running, size, route)
    grants = LOCAL_GRANTS if route == "local" else GRANTS
    with contextlib.ExitStack() as stack:
        jobs = [stack.enter_context(job(running, size, route, slots=QUOTA)) for _ in grants]
        assert [members[0].status()["slots"] for members in jobs] == list(grants)
        outcomes = join(running, placement, lambda rank: wanted)
        assert errors_of(outcomes) == ["NoResources"] * size
        assert all(f"asked for {ASKED[route]} bytes, 0 would fit" in str(outcome) for outcome in outcomes)
        # Earlier members are not disturbed.
        sums = run_ranks(size, lambda rank: jobs[0][rank].allreduce(np.ones(5, "i4"), timeout=BOUND_S)[0])
        assert sums == [size] * size
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
@pytest.mark.parametrize("node", range(NODES))
def test_lease_that_one_node_refuses_is_refused_to_all(running: Running, route: str, node: int) -> None:
    """All slots of one NIC are leased to jobs on its node; the other nodes have room, but are refused as well."""
    nic = running.fabric.nics[node]
    alone = [Job(1 + number, 1, (JobNode(nic.address, (0,)),), slots=QUOTA) for number in range(len(GRANTS))]
    placement, wanted = describe(running, RANKS, route)
    with contextlib.ExitStack() as stack:
        for one in alone:
            stack.enter_context(Communicator(one, 0, running.state.socket(nic.name), timeout=BOUND_S))
        outcomes = join(running, placement, lambda rank: wanted)
    assert errors_of(outcomes) == ["NoResources"] * RANKS
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_lease_takes_the_remaining_slots(running: Running, route: str) -> None:
    """Half is leased: a job that asks for more gets a part of the other half, on every device."""
    with job(running, RANKS, "tree", slots=QUOTA // 2), job(running, RANKS, route) as members:
        assert {member.status()["slots"] for member in members} == {MIN_LEASE}
        found = statuses(running)
        assert {found[nic.name]["slots"]["leased"] for nic in running.fabric.nics} == {QUOTA // 2 + MIN_LEASE}
    assert_released(running)


def test_switch_with_the_smallest_quota_decides(bench: Bench) -> None:
    fabric = bench.describe(Shape(2, LOCAL_RANKS, slots=64))
    devices = [
        msgspec.structs.replace(device, slots=MIN_LEASE) if device.kind == "switch" else device
        for device in fabric.devices
    ]
    lean = bench.build(msgspec.structs.replace(fabric, devices=tuple(devices)))
    placement, wanted = describe(lean, 4, "tree")
    with job(lean, 4, "tree", slots=32) as members:
        assert {member.status()["slots"] for member in members} == {MIN_LEASE}
        outcomes = join(lean, placement, lambda rank: wanted)
        assert errors_of(outcomes) == ["NoResources"] * 4
        for outcome in outcomes:
            assert "asked for 256 slots of 4096 bytes, 0 would fit" in str(outcome)
    assert_released(lean)


@pytest.mark.parametrize(("route", "size"), ROUTES)
def test_segments_larger_than_the_path_carries(running: Running, route: str, size: int) -> None:
    placement, wanted = describe(running, size, route)
    outcomes = join(running, placement, lambda rank: replace(wanted, chunk=32768))
    assert errors_of(outcomes) == ["NoResources"] * size
    longest = "with an MTU of 9000 this node's NIC takes segments of at most 8192 bytes"
    assert all((longest in str(outcome)) is (route != "local") for outcome in outcomes)
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_job_without_a_chunk_has_what_the_mtu_takes(bench: Bench, route: str) -> None:
    """A description without segment size serves any network: 1500 bytes is the usual MTU."""
    narrow = bench.build(msgspec.structs.replace(bench.describe(Shape(2, 1)), mtu=1500))
    placement, wanted = describe(narrow, 2, route)
    plain = Job(wanted.jid, wanted.key, wanted.nodes, wanted.route)

    def act(rank: int) -> tuple[int, float]:
        with Communicator(plain, rank, socket_of(narrow, placement, rank), timeout=BOUND_S) as communicator:
            return communicator.lease.chunk, communicator.allreduce(np.ones(5000, "f4"), timeout=BOUND_S)[-1]

    assert run_ranks(2, act) == [(1024, 2.0)] * 2
    assert_released(narrow)
    bench.down(narrow)


@pytest.mark.parametrize(("route", "size"), ROUTES)
def test_job_id_in_use(running: Running, route: str, size: int) -> None:
    with job(running, size, route, slots=MIN_LEASE) as members:
        placement, wanted = describe(running, size, route, slots=MIN_LEASE)
        outcomes = join(running, placement, lambda rank: replace(wanted, jid=members[0].job.jid))
        assert errors_of(outcomes) == ["JidInUse"] * size
    assert_released(running)


def test_job_id_in_use_at_the_switch_only(running: Running) -> None:
    """The two jobs share no node: only the switch knows both."""
    first, sockets = across(running, (0, 1), "tree")
    members = run_ranks(2, lambda rank: Communicator(first, rank, sockets[rank], timeout=BOUND_S))
    second, others = across(running, (2, 3), "tree")
    second = replace(second, jid=first.jid)
    outcomes = run_ranks(2, lambda rank: Communicator(second, rank, others[rank], timeout=BOUND_S))
    assert errors_of(outcomes) == ["JidInUse"] * 2
    run_ranks(2, lambda rank: members[rank].close())
    assert_released(running)


@pytest.mark.parametrize(("route", "size"), ROUTES)
@pytest.mark.parametrize("odd", [0, 1])
def test_rank_that_describes_the_job_differently(running: Running, route: str, size: int, odd: int) -> None:
    placement, wanted = describe(running, size, route, slots=MIN_LEASE)
    other = replace(wanted, slots=QUOTA)
    outcomes = join(running, placement, lambda rank: other if rank == odd else wanted)
    assert errors_of(outcomes) == ["MembersMismatch"] * size
    assert_released(running)


@pytest.mark.parametrize("route", ["tree", "ring"])
@pytest.mark.parametrize("node", range(NODES))
def test_node_that_describes_the_job_differently(running: Running, route: str, node: int) -> None:
    placement, wanted = describe(running, RANKS, route, slots=MIN_LEASE)
    other = replace(wanted, slots=QUOTA)
    outcomes = join(running, placement, lambda rank: other if rank // LOCAL_RANKS == node else wanted)
    assert errors_of(outcomes) == ["MembersMismatch"] * RANKS
    assert_released(running)
