"""Devices with RAW_PACKET queue pairs: the same results, with each other and with a device that has a UDP socket."""

import contextlib
import shutil
from collections.abc import Iterator

import numpy as np
import pytest

from fanin.verbs.enums import IBV_WR_RDMA_WRITE
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import inside
from fanin_wire.fields import UDP_PORT
from tests.e2e.fabrics import BOUND_S, RUNS, assert_released, counter, statuses
from tests.e2e.members import job, run_ranks
from tests.ordinary.sides import Side, connect, sockets
from tests.raw_packet.conftest import NICS, OVER_SOCKETS, RANKS

pytestmark = pytest.mark.netns

SIZE = NICS * RANKS
ELEMENTS = 40_001
LENGTH = 300_001  # bytes
PER_MILLE = 30
TABLE = "faults"
DAMAGE = ("drop_frame", "drop_runt", "drop_length", "drop_icrc")


def check_collectives(running: Running, route: str) -> None:
    """Several collectives of one job, each with the result that numpy has."""
    with job(running, SIZE, route) as members:
        brought = np.random.default_rng(1).integers(-(1 << 40), 1 << 40, (SIZE, ELEMENTS * SIZE))

        def act(rank: int) -> tuple[np.ndarray, ...]:
            own = brought[rank].copy()
            return (
                members[rank].allreduce(own[:ELEMENTS], timeout=BOUND_S),
                members[rank].broadcast(own[:ELEMENTS].copy(), root=SIZE - 1, timeout=BOUND_S),
                members[rank].allgather(own[:ELEMENTS], timeout=BOUND_S).ravel(),
                members[rank].reduce_scatter(own, timeout=BOUND_S),
            )

        outcomes = run_ranks(SIZE, act)
    for rank, outcome in enumerate(outcomes):
        assert isinstance(outcome, tuple), outcome
        total, sent, gathered, part = outcome
        assert np.array_equal(total, brought[:, :ELEMENTS].sum(0))
        assert np.array_equal(sent, brought[SIZE - 1, :ELEMENTS])
        assert np.array_equal(gathered, brought[:, :ELEMENTS].ravel())
        assert np.array_equal(part, brought.sum(0)[rank * ELEMENTS : (rank + 1) * ELEMENTS])
    assert_released(running)


def bytes_of_sockets(running: Running, device: str) -> int:
    """Bytes of the IP packets that a host has sent. Frames of packet sockets are none of them."""
    names, values = (
        line.split()
        for line in inside(running.fabric, device, "cat", "/proc/net/netstat").splitlines()
        if "IpExt:" in line
    )
    return int(values[names.index("OutOctets")])


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_collectives(running: Running, route: str) -> None:
    """Every frame is whole, and no socket of the hosts carries a packet but those of the one device."""
    check_collectives(running, route)
    found = statuses(running)
    assert {name: counter(found, name) for name in DAMAGE} == dict.fromkeys(DAMAGE, 0)
    switch = [("switch", "switch")] if route == "tree" else []
    for host, name in [("host0", "nic0"), ("host2", OVER_SOCKETS), *switch]:
        sent = sum(link["tx_bytes"] for link in found[name]["links"].values())
        by_sockets = bytes_of_sockets(running, host)
        # a super-packet has headers once; a resolver sends a few datagrams that are empty
        assert by_sockets > sent / 2 if name == OVER_SOCKETS else by_sockets < sent / 100, (name, sent, by_sockets)


def test_results_go_to_the_group(running: Running) -> None:
    """The switch sends each to all NICs at once, when they have heard its invitation. The first of all is lost: the way
    to the group is not known yet. One that comes late, or a result that does, ends it for a while."""
    (switch,) = running.fabric.switches
    for _ in range(RUNS):
        check_collectives(running, "tree")
        if statuses(running)["switch"]["links"][switch.group]["tx_packets"] > 100:
            return
    raise AssertionError(f"in none of {RUNS} jobs results have gone to the group")


def test_ordinary_traffic(running: Running) -> None:
    """Between a queue pair and a socket, both ways."""
    with contextlib.ExitStack() as stack:
        first, *_, last = sockets(running)
        one, other = (stack.enter_context(contextlib.closing(Side(socket))) for socket in (first, last))
        connect(one, other)
        for side, peer in ((one, other), (other, one)):
            side.fill()
            side.send(IBV_WR_RDMA_WRITE, side.piece(LENGTH), remote=(peer, 0))
            side.completion()
            assert np.array_equal(one.data[:LENGTH], other.data[:LENGTH])


@pytest.fixture
def losing(running: Running) -> Iterator[None]:
    """The bridge loses packets of all devices."""
    if shutil.which("nft") is None:
        pytest.skip("the program `nft` (nftables), to lose packets in the kernel")
    rule = f"udp dport {UDP_PORT} numgen random mod 1000 < {PER_MILLE} counter drop"
    chains = "".join(
        f"chain {hook} {{\ntype filter hook {hook} priority 0\n{rule}\n}}\n" for hook in ("prerouting", "output")
    )
    inside(running.fabric, "switch", "nft", "-f", "-", text=f"table bridge {TABLE} {{\n{chains}}}\n")
    yield
    inside(running.fabric, "switch", "nft", "delete", "table", "bridge", TABLE)


def test_lost_frames(running: Running, losing: None) -> None:
    before = statuses(running)
    check_collectives(running, "tree")
    listing = inside(running.fabric, "switch", "nft", "list", "table", "bridge", TABLE)
    lost = [int(part.split()[0]) for part in listing.split("counter packets ")[1:]]
    assert len(lost) == 2
    assert all(lost), listing
    assert counter(statuses(running), "resent") > counter(before, "resent")
