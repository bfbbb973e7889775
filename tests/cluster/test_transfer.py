"""A hand-off over devices: every GPU of node 2 has the data, one copy crosses the network, links may fail."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fanin_cluster.handoff.channel import HandoffFailed
from fanin_cluster.handoff.node import WholeNode
from fanin_cluster.handoff.plan import HandoffInvalid
from fanin_cluster.handoff.transfer import CHUNK, digest_of, failures_of, recv, send
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.cluster.sending_node import GPUS, data_of, plan_of
from tests.e2e.fabrics import Bench, statuses
from tests.ordinary.sides import sockets
from tests.waiting import BOUND_S

pytestmark = pytest.mark.process
LINKS = 2
SIZE = (8 << 20) + 12_345
PACKET = 1024  # bytes of data: the path MTU of a queue pair unless it is set


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(2 * LINKS, 1, direct=True))


class SendingNode:
    def __init__(self, devices: list[str], size: int = SIZE) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(BOUND_S)
        port = self.listener.getsockname()[1]
        command = [sys.executable, "-m", "tests.cluster.sending_node", str(port), str(size), *devices]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        assert self.process.stdout.readline() == "READY\n"
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.channel, _ = self.listener.accept()
        self.channel.settimeout(BOUND_S)

    def __enter__(self) -> SendingNode:
        return self

    def __exit__(self, *reason: object) -> None:
        self.channel.close()
        self.listener.close()
        self.process.kill()
        self.process.communicate()

    def ends_with(self) -> str:
        """Its last line."""
        output, _ = self.process.communicate(timeout=BOUND_S)
        return output.strip()


@pytest.mark.parametrize("chunks", [1, 3])
def test_one_copy_for_all_gpus(chunks: int, running: Running) -> None:
    """The devices count the packets: D and not 8 D. Stages in sequence, and in chunks."""
    first, second = sockets(running)[:LINKS], sockets(running)[LINKS:]
    before = sent(running)
    memory = np.zeros((GPUS, SIZE), np.uint8)
    with SendingNode([*first, f"chunks={chunks}"]) as node:
        with WholeNode(memory, node.channel) as here:
            done = recv(plan_of(SIZE, LINKS), here, by_name(second), chunks)
        assert node.ends_with() == "failed []"
    assert (memory == data_of(SIZE)).all()
    assert done.failed == ()
    assert sent(running) - before == sum(
        -(-stripe.length // PACKET) for part in plan_of(SIZE, LINKS).in_chunks(chunks) for stripe in part.stripes
    )


def by_name(devices: Sequence[str]) -> dict[str, str]:
    return {f"second{number}": device for number, device in enumerate(devices)}


def sent(running: Running) -> int:
    """Packets of ordinary traffic that the NICs of node 1 have sent, without repetitions."""
    counters = [statuses(running)[nic.name]["counters"] for nic in running.fabric.nics[:LINKS]]
    return sum(each["ordinary_tx_packets"] - each["ordinary_resent"] for each in counters)


def test_two_plans_are_refused(running: Running) -> None:
    memory = np.zeros((GPUS, SIZE - 1), np.uint8)
    with SendingNode(list(sockets(running)[:LINKS])) as node:
        with (
            WholeNode(memory, node.channel) as here,
            pytest.raises(HandoffFailed, match="the processes have different plans"),
        ):
            recv(plan_of(SIZE - 1, LINKS), here, by_name(sockets(running)[LINKS:]))
        assert node.ends_with().startswith("HandoffFailed: the processes have different plans")


def test_the_other_node_goes_away(running: Running) -> None:
    here, there = socket.socketpair()
    there.sendall(b'{"weather": "fine"}\n')
    memory = np.zeros((GPUS, SIZE), np.uint8)
    with (
        here,
        WholeNode(memory, here) as node,
        pytest.raises(HandoffFailed, match=r"it has said .*weather.* and not plan"),
    ):
        recv(plan_of(SIZE, LINKS), node, by_name(sockets(running)[LINKS:]))
    there.close()
    here, there = socket.socketpair()
    there.close()
    with here, WholeNode(memory, here) as node, pytest.raises(HandoffFailed, match="the other node has stopped"):
        recv(plan_of(SIZE, LINKS), node, by_name(sockets(running)[LINKS:]))


@pytest.mark.parametrize("ends", ["[]", "7", '[{"qpn": 1}]', '[{"gid": "::1", "qpn": [], "rkey": 1, "address": 1}]'])
def test_an_end_that_can_not_be_read(ends: str, running: Running) -> None:
    plan = plan_of(64, LINKS)
    digest = digest_of(plan, 1)
    here, there = socket.socketpair()
    there.sendall(f'{{"plan": "{digest}", "ends": {ends}}}\n'.encode())
    with (
        here,
        there,
        WholeNode(np.zeros((GPUS, 64), np.uint8), here) as node,
        pytest.raises(HandoffFailed, match=r"ends can not be read|it has 0 ends and not 2"),
    ):
        recv(plan, node, by_name(sockets(running)[LINKS:]))


@pytest.mark.parametrize("said", [7, [[0]], [["a", []]], [[0, [[1]]]]])
def test_failures_that_can_not_be_read(said: object) -> None:
    with pytest.raises(HandoffFailed, match="its failures can not be read"):
        failures_of(said)


def test_nothing_to_send() -> None:
    plan = plan_of(0, LINKS)
    here, there = socket.socketpair()
    first, second = WholeNode(np.zeros(0, np.uint8), here), WholeNode(np.zeros((GPUS, 0), np.uint8), there)
    with here, there, first, second:
        assert send(plan, first, {}) == plan
        assert recv(plan, second, {}) == plan


@pytest.mark.parametrize(
    ("memory", "chunks", "wrong"),
    [
        (np.zeros(63, np.uint8), 1, "give contiguous bytes of shape"),
        (np.zeros((GPUS, 128), np.uint8)[:, ::2], 1, "give contiguous bytes of shape"),
        (np.zeros(64, np.uint8), 0, "a transfer in 0 chunks"),
        (np.zeros(64, np.uint8), 1, "the device of first0 is missing"),
    ],
)
def test_wrong_arguments(memory: Any, chunks: int, wrong: str) -> None:
    here, there = socket.socketpair()
    with here, there, WholeNode(memory, here) as node, pytest.raises(HandoffInvalid, match=wrong):
        send(plan_of(64, LINKS), node, {}, chunks)


def test_nics_die_on_the_way(running: Running) -> None:
    """After a chunk has arrived over its link: the rest goes over the other one. Nothing is lost.

    First the NIC of link 0 in node 2, then that in node 1; by then both links have one NIC in node 2. The second time
    the stages are in chunks; those after the failure use the other link from the start.
    """
    first, second = sockets(running)[:LINKS], sockets(running)[LINKS:]
    for victim, devices, chunks in ((LINKS, second, 1), (0, [second[1]] * LINKS, 2)):
        memory = np.zeros((GPUS, SIZE), np.uint8)
        pid = running.state.processes()[running.fabric.nics[victim].name].pid
        with SendingNode([*first, f"chunks={chunks}", f"kill={pid}"]) as node:
            with WholeNode(memory, node.channel) as here:
                done = recv(plan_of(SIZE, LINKS), here, by_name(devices), chunks)
            assert node.ends_with() == "failed [0]"
        assert (memory == data_of(SIZE)).all()
        assert done.failed == (0,)
        assert [each.length for each in done.arrived if each.owner == 0] == ([CHUNK] if chunks == 1 else [])
