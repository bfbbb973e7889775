"""Node 1 of a hand-off: `sending_node.py PORT SIZE DEVICE... [chunks=COUNT] [kill=PID]`.

It prints the failed links. It prints `READY` and begins after a line on its standard input. With `kill` it kills a
device when the first chunk has arrived over link 0.
"""

import os
import signal
import socket
import sys
from typing import Any

import numpy as np

from fanin_cluster.handoff.channel import HandoffFailed
from fanin_cluster.handoff.node import WholeNode
from fanin_cluster.handoff.plan import Link, Plan, build
from fanin_cluster.handoff.transfer import CHUNK, End, send

GPUS = 8
RATE = 1e9


def plan_of(size: int, links: int, holder: int | None = None) -> Plan:
    """8 GPUs on both sides; link i joins GPU i through its own NIC on each side."""
    joined = [Link(each, each, f"first{each}", f"second{each}", RATE) for each in range(links)]
    groups = [[gpu for gpu in range(GPUS) if gpu % links == each] for each in range(links)]
    names = [f"gpu{each}" for each in range(GPUS)]
    return build(size, joined, groups, first_gpus=names, second_gpus=names, holder=holder)


def data_of(size: int) -> Any:
    """The data, known to both nodes."""
    return np.random.default_rng(size).integers(0, 256, size, np.uint8)


def kill_after_a_chunk(pid: int) -> None:
    """Let the link of the first byte kill a process after its first chunk."""
    write = End.write

    def and_kill(self: End, ranges: list[tuple[int, int]], peer: Any) -> tuple[bool, list[tuple[int, int]]]:
        (offset, length), *others = ranges
        if offset:
            return write(self, ranges, peer)
        whole, arrived = write(self, [(0, CHUNK)], peer)
        assert whole
        os.kill(pid, signal.SIGKILL)
        whole, more = write(self, [(CHUNK, length - CHUNK), *others], peer)
        return whole, arrived + more

    End.write = and_kill  # type: ignore[method-assign]


def main() -> None:
    port, size, *devices = sys.argv[1:]
    if devices[-1].startswith("kill="):
        kill_after_a_chunk(int(devices.pop().removeprefix("kill=")))
    chunks = int(devices.pop().removeprefix("chunks=")) if devices[-1].startswith("chunks=") else 1
    print("READY", flush=True)
    sys.stdin.readline()
    with socket.create_connection(("127.0.0.1", int(port))) as channel:
        plan = plan_of(int(size), len(devices))
        try:
            sockets = {f"first{i}": each for i, each in enumerate(devices)}
            with WholeNode(data_of(int(size)), channel) as node:
                done = send(plan, node, sockets, chunks)
        except HandoffFailed as error:
            print(f"HandoffFailed: {error}", flush=True)
            return
    print(f"failed {list(done.failed)}", flush=True)


if __name__ == "__main__":
    main()
