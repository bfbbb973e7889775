"""Every byte on every link, counted by the devices: S up and S down in a tree, 2(n-1)/n S in a ring, and no PROBE."""

import threading
import time
from typing import Any

import numpy as np
import pytest

from fanin import Communicator
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_wire import fields
from tests.e2e.fabrics import BOUND_S, Bench, Statuses, counter, drops, statuses, undisturbed
from tests.e2e.members import job, run_ranks

NODES, RANKS = 4, 8
CHUNK = 4096
MESSAGE = 2 << 20  # bytes
SEGMENTS = MESSAGE // CHUNK
EACH_WAY = {"tree": MESSAGE, "ring": 2 * (NODES - 1) * MESSAGE // NODES}  # payload of each node
TRANSPORT_SHARE = 0.02  # BTH + CETH + ICRC, at 4 KiB
HEADER_SHARE = 0.03  # the IP packet without payload
REPETITIONS = 10
LATE_S = 0.5  # more than devices wait before they ask


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(NODES, RANKS // NODES))


def reduce(members: list[Communicator], repeat: int = 1, elements: int = MESSAGE // 4, late: float = 0) -> list[Any]:
    """Allreduce of ones in registered memory, `repeat` times; each rank's sum. All start together, but rank 0 `late`
    seconds later: devices ask for what is missing."""
    ready = threading.Barrier(len(members), timeout=BOUND_S)

    def act(rank: int) -> float:
        array, result = members[rank].alloc(elements), members[rank].alloc(elements)
        array[:] = 1
        ready.wait()
        time.sleep(0 if rank else late)
        for _ in range(repeat):
            members[rank].allreduce(array, out=result)
        return float(result.min())

    return run_ranks(len(members), act)


def measured(running: Running, route: str, **work: int) -> tuple[Statuses, Statuses]:
    """STATUS before and after `reduce`, without joining and leaving."""

    def measure() -> tuple[Statuses, Statuses]:
        with job(running, RANKS, route) as members:
            before = statuses(running)
            assert reduce(members, **work) == [RANKS] * RANKS
            return before, statuses(running)

    return undisturbed(measure)


def grown(before: Statuses, after: Statuses, device: str, peer: str, key: str) -> int:
    return after[device]["links"][peer][key] - before[device]["links"].get(peer, {}).get(key, 0)


def test_tree_carries_the_message_up_and_down_once_on_each_link(running: Running) -> None:
    before, after = measured(running, "tree")
    (switch,) = running.fabric.switches
    for nic in running.fabric.nics:
        for direction in ("tx", "rx"):
            payload = grown(before, after, nic.name, switch.address, f"{direction}_payload_bytes")
            wire = grown(before, after, nic.name, switch.address, f"{direction}_bytes")
            packets = grown(before, after, nic.name, switch.address, f"{direction}_packets")
            assert payload == MESSAGE
            assert packets * (fields.TRANSPORT_SIZE + fields.ICRC_SIZE) < TRANSPORT_SHARE * payload
            assert 0 < wire - payload < HEADER_SHARE * payload


def test_both_ends_of_a_link_count_the_same(running: Running) -> None:
    before, after = measured(running, "tree")
    (switch,) = running.fabric.switches
    for nic in running.fabric.nics:
        for ours, theirs in (("tx", "rx"), ("rx", "tx")):
            for what in ("payload_bytes", "bytes", "packets"):
                here = grown(before, after, nic.name, switch.address, f"{ours}_{what}")
                assert here == grown(before, after, switch.name, nic.address, f"{theirs}_{what}")


def test_tree_sends_one_packet_per_segment_each_way(running: Running) -> None:
    before, after = measured(running, "tree")
    for nic in running.fabric.nics:
        for name in ("tx_CONTRIBUTION", "rx_RESULT"):
            assert after[nic.name]["counters"][name] - before[nic.name]["counters"][name] == SEGMENTS


def test_no_packet_passes_from_node_to_node_in_a_tree(running: Running) -> None:
    with job(running, RANKS, "tree") as members:
        before = statuses(running)
        reduce(members)
        after = statuses(running)
    addresses = {nic.address for nic in running.fabric.nics}
    for nic in running.fabric.nics:
        for peer in addresses & after[nic.name]["links"].keys():
            assert grown(before, after, nic.name, peer, "tx_packets") == 0


def test_ring_carries_twice_the_share_of_all_but_one_node(running: Running) -> None:
    before, after = measured(running, "ring")
    expected = EACH_WAY["ring"]
    nics = running.fabric.nics
    for index, nic in enumerate(nics):
        following = nics[(index + 1) % NODES]
        payload = grown(before, after, nic.name, following.address, "tx_payload_bytes")
        wire = grown(before, after, nic.name, following.address, "tx_bytes")
        assert payload == expected
        assert 0 < wire - payload < HEADER_SHARE * payload


def test_one_node_sends_nothing(running: Running) -> None:
    nic = running.fabric.nics[0].name
    with job(running, RANKS // NODES, "local") as members:
        before = statuses(running)
        reduce(members)
        assert statuses(running)[nic]["links"] == before[nic]["links"]


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_without_loss_nothing_is_asked_for_or_sent_again(running: Running, route: str) -> None:
    before, after = measured(running, route, repeat=REPETITIONS)
    for name in ("tx_PROBE", "tx_NEED", "tx_WAIT", "tx_NAK", "tx_ABORT"):
        assert counter(after, name) == counter(before, name), name
    assert drops(after) == drops(before)
    for device in after:
        assert after[device]["counters"]["ordinary_packets"] == 0


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_a_late_rank_costs_headers_but_no_payload(running: Running, route: str) -> None:
    with job(running, RANKS, route) as members:
        before = statuses(running)
        assert reduce(members, late=LATE_S) == [RANKS] * RANKS
        after = statuses(running)
    expected = EACH_WAY[route]
    for nic in running.fabric.nics:
        sent = {peer: grown(before, after, nic.name, peer, "tx_payload_bytes") for peer in after[nic.name]["links"]}
        assert sum(sent.values()) == expected
    assert counter(after, "resent") == counter(before, "resent")


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_small_messages_without_loss_ask_for_nothing(running: Running, route: str) -> None:
    before, after = measured(running, route, repeat=200, elements=3)
    assert counter(after, "tx_PROBE") == counter(before, "tx_PROBE")
    assert drops(after) == drops(before)


def test_results_are_the_message_of_every_rank(running: Running) -> None:
    """A device that sends rubbish would pass the counts above."""
    with job(running, RANKS, "tree") as members:

        def act(rank: int) -> np.ndarray:
            return members[rank].allreduce(np.arange(MESSAGE // 4, dtype=np.float32) * (rank + 1))

        expected = np.arange(MESSAGE // 4, dtype=np.float32) * sum(range(1, RANKS + 1))
        for result in run_ranks(RANKS, act):
            np.testing.assert_allclose(result, expected, rtol=1e-6)
