"""The processes of a server in a hand-off: all hear of an end, by name, and nothing stays open."""

import gc
import os
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin.errors import InvalidRequest, NoResources
from fanin.verbs import SharedMemory
from fanin_cluster.handoff.channel import HandoffFailed, Lines
from fanin_cluster.handoff.node import DESCRIPTORS, SIBLING, Node, SharedNode, WholeNode, _give
from fanin_cluster.handoff.transfer import agree
from tests.cluster.sending_node import plan_of
from tests.waiting import BOUND_S

SIZE = 64


@contextmanager
def met(path: Path, processes: int) -> Iterator[list[SharedNode]]:
    """The processes of a server, the leading one first."""
    here, there = socket.socketpair()
    with here, there, ThreadPoolExecutor() as threads, ExitStack() as nodes:
        channels = [here, *[None] * (processes - 1)]
        made: list[Future[SharedNode]] = [
            threads.submit(SharedNode, path, processes, [gpu], SIZE, channel) for gpu, channel in enumerate(channels)
        ]
        leader, *followers = [each.result() for each in made]
        for node in (*followers, leader):  # the leading one is left first, which ends a follower that waits for it
            nodes.enter_context(node)
        yield [leader, *followers]


@pytest.mark.parametrize("processes", [0, 1, 2])
def test_other_server_hears_of_the_end(processes: int, tmp_path: Path) -> None:
    """After the node was left and its connection closed, though the program holds both. 0: a WholeNode."""
    here, there = socket.socketpair()
    there.settimeout(BOUND_S)
    with here, there, Lines(there) as other, ThreadPoolExecutor() as threads, ExitStack() as followers:
        for gpu in range(1, processes):
            threads.submit(SharedNode, tmp_path / "node", processes, [gpu], SIZE).add_done_callback(
                lambda done: followers.enter_context(done.result())
            )
        node: Node = (
            SharedNode(tmp_path / "node", processes, [0], SIZE, here)
            if processes
            else WholeNode(np.zeros(SIZE, np.uint8), here)
        )
        with here, node:
            node.put({"said": 1})
        assert other.take("said") == {"said": 1}
        with pytest.raises(HandoffFailed, match="the other node has stopped: it has closed the connection"):
            other.take("said")


def fails() -> Any:
    raise HandoffFailed("a cause", "a remedy")


@pytest.mark.parametrize("first", [0, 1])
def test_cause_comes_to_all_that_are_left(first: int, tmp_path: Path) -> None:
    """One has gone before: the leading process still tells the others, and raises its own error."""
    with ThreadPoolExecutor() as threads, met(tmp_path / "node", 3) as (leader, *followers):
        followers[first].__exit__()
        heard = threads.submit(followers[1 - first].share, fails)
        with pytest.raises(HandoffFailed, match="a cause"):
            leader.share(fails)
        with pytest.raises(HandoffFailed, match="a cause"):
            heard.result(BOUND_S)


@pytest.mark.parametrize("first", [0, 1])
def test_loss_comes_to_all_that_are_left(first: int, tmp_path: Path) -> None:
    """A process is gone when the leading one sends: the others hear of it, now or the next time."""
    with ThreadPoolExecutor() as threads, met(tmp_path / "node", 3) as (leader, *followers):
        followers[first].__exit__()
        heard = threads.submit(lambda: [followers[1 - first].share(fails) for _ in range(2)])
        with pytest.raises(HandoffFailed, match="another process of this node has stopped"):
            leader.share(lambda: 7)
        with pytest.raises(HandoffFailed, match="another process of this node has stopped"):
            heard.result(BOUND_S)


def test_process_that_has_gone_gets_no_memory() -> None:
    here, there = socket.socketpair()
    with here, Lines(here, SIBLING) as lines, SharedMemory(SIZE) as memory:
        there.close()
        with pytest.raises(HandoffFailed, match="another process of this node has stopped"):
            _give(here, lines, {0: memory})


def test_plans_of_one_server_differ(tmp_path: Path) -> None:
    """All its processes say so, also one without the extra links."""
    with ThreadPoolExecutor() as threads, met(tmp_path / "node", 2) as nodes:
        said = [threads.submit(agree, plan_of(SIZE, 1 + number), {}, each, 1) for number, each in enumerate(nodes)]
        for each in said:
            with pytest.raises(HandoffFailed, match="the processes have different plans"):
                each.result(BOUND_S)


def shared_descriptors() -> int:
    """The number of this process's descriptors of shared memory. A mapping keeps one until its last view ends."""
    gc.collect()
    return sum("memfd:fanin-shared" in target for target in map(target_of, os.listdir("/proc/self/fd")))


def target_of(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:  # that of the listing
        return ""


def test_wrong_descriptor_leaves_none_open(tmp_path: Path) -> None:
    """A process sends memory that is not sealed, between memories that are."""
    before = shared_descriptors()
    here, there = socket.socketpair()
    with here, there, ThreadPoolExecutor() as threads:
        leader = threads.submit(SharedNode, tmp_path / "node", 2, [0], SIZE, here, BOUND_S)
        with Path("/dev/null").open() as unsealed, SharedMemory(SIZE) as one, socket.socket(socket.AF_UNIX) as member:
            until = time.monotonic() + BOUND_S
            while member.connect_ex(str(tmp_path / "node")) and time.monotonic() < until:
                time.sleep(0.01)
            socket.send_fds(member, [DESCRIPTORS], [one.fd, unsealed.fileno(), one.fd, one.fd])
            with pytest.raises(InvalidRequest, match="the descriptor is not of sealed shared memory"):
                leader.result()
    del leader, one
    assert shared_descriptors() == before


def test_memory_that_fails_leaves_none_open(tmp_path: Path) -> None:
    """Without descriptors: the memory of the first GPUs is given back."""
    before = shared_descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    here, there = socket.socketpair()
    with here, there:
        opened = {int(each) for each in os.listdir("/proc/self/fd") if target_of(each)}
        limit = next(each for each in range(hard) if each - sum(one < each for one in opened) == 5)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            with pytest.raises(NoResources):
                SharedNode(tmp_path / "node", 1, range(8), SIZE, here)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert shared_descriptors() == before
