"""A literal hand-off with a process for each GPU: same result and bytes as with one process for each server."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fanin_cluster.handoff.channel import HandoffFailed
from fanin_cluster.handoff.node import SharedNode
from fanin_cluster.handoff.plan import HandoffInvalid
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.cluster.sending_node import GPUS, plan_of
from tests.cluster.test_transfer import LINKS, PACKET, SIZE, sent
from tests.e2e.fabrics import Bench
from tests.ordinary.sides import sockets
from tests.waiting import BOUND_S

pytestmark = pytest.mark.process
FORKS = """
import time
from tests.cluster.forked import start_each, wait_for
children = start_each([lambda: time.sleep(1000)])
print(*children, flush=True)
wait_for(children)
"""
DEFAULTS = {"size": SIZE, "chunks": 1, "holder": None, "kill": 0, "ends": None}


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(2 * LINKS, 1, direct=True))


def carried(running: Running, folder: Path, second: tuple[int, ...] = (2, 3), **options: Any) -> list[dict[str, Any]]:
    """The output of all processes. second: the NICs of node 2."""
    devices = sockets(running)
    told = {"first": devices[:LINKS], "second": [devices[each] for each in second], "folder": str(folder)}
    command = [sys.executable, "-m", "tests.cluster.transfer_ranks", json.dumps({**told, **DEFAULTS, **options})]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("chunks", "holder"), [(1, None), (3, None), (1, 5)])
def test_one_copy_for_all_processes(chunks: int, holder: int | None, running: Running, tmp_path: Path) -> None:
    """The devices count the packets of one copy. Stages in sequence, and in chunks; all GPUs hold the data, or one."""
    before = sent(running)
    said = carried(running, tmp_path, chunks=chunks, holder=holder)
    assert [each["error"] for each in said if "error" in each] == []
    assert len(said) == LINKS + GPUS + (holder is not None)
    assert [each["right"] for each in said if each["side"] == "second"] == [True] * GPUS
    assert all(each["failed"] == [] for each in said)
    assert sent(running) - before == sum(
        -(-stripe.length // PACKET) for part in plan_of(SIZE, LINKS).in_chunks(chunks) for stripe in part.stripes
    )


def test_a_process_ends(running: Running, tmp_path: Path) -> None:
    """One of node 2, in the middle: all others end with an error by name, on both nodes."""
    said = carried(running, tmp_path, ends=3)
    assert len(said) == LINKS + GPUS - 1
    assert all(each["error"].startswith("HandoffFailed: ") for each in said), said


def test_nics_die_on_the_way(running: Running, tmp_path: Path) -> None:
    """First that of link 0 in node 2, then that in node 1, where the holder spreads the rest again. Nothing is lost."""
    for victim, second, options in ((LINKS, (2, 3), {}), (0, (3, 3), {"chunks": 2, "holder": 5})):
        pid = running.state.processes()[running.fabric.nics[victim].name].pid
        said = carried(running, tmp_path, second, kill=pid, **options)
        assert [each["error"] for each in said if "error" in each] == []
        assert [each["right"] for each in said if each["side"] == "second"] == [True] * GPUS
        assert all(each["failed"] == [0] for each in said)


def test_processes_that_do_not_fit_together(tmp_path: Path) -> None:
    path = tmp_path / "node.sock"
    with pytest.raises(HandoffFailed, match="no process leads this node"):
        SharedNode(path, 2, [1], 64, timeout=0.05)
    here, there = socket.socketpair()
    with here, there:
        with pytest.raises(HandoffFailed, match="1 of 1 other processes of this node have not arrived"):
            SharedNode(path, 2, [0], 64, here, timeout=0.05)
        for gpus, size, wrong in (
            ([0], 64, "two processes of this node have the GPUs"),
            ([1], 65, "give all the same"),
        ):
            with ThreadPoolExecutor() as threads:
                other = threads.submit(SharedNode, path, 2, gpus, size)
                with pytest.raises(HandoffInvalid, match=wrong):
                    SharedNode(path, 2, [0], 64, here)
                with pytest.raises(HandoffFailed, match="another process of this node has stopped"):
                    other.result()


def test_processes_end_with_their_parent() -> None:
    """Also if it is killed, as a test that takes too long is."""
    parent = subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()
            assert select.select([child], [], [], BOUND_S)[0] == [child]
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(child, signal.SIGKILL)
            os.close(child)
