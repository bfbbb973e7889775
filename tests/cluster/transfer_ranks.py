"""The processes of a literal hand-off, one for each GPU: `transfer_ranks.py JSON`, with a line of JSON from each.

| member of the JSON | value |
| --- | --- |
| first, second | of each link, the socket of the device of node 1, and of node 2 |
| size, chunks | of the transfer |
| holder | the only GPU of node 1 that has the data; null: all have |
| kill | process that ends when the first chunk has arrived over link 0; 0: none |
| folder | for the sockets of both nodes |
| ends | GPU of node 2 whose process ends when the stripes begin to arrive; null: none |
"""

import json
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fanin.errors import FaninError
from fanin_cluster.errors import ClusterError
from fanin_cluster.handoff.node import SharedNode
from fanin_cluster.handoff.transfer import recv, send
from tests.cluster.forked import start_each, wait_for
from tests.cluster.sending_node import GPUS, data_of, kill_after_a_chunk, plan_of
from tests.waiting import BOUND_S

Channels = dict[str, socket.socket]


class Ending(SharedNode):
    """Ends its process where the first message of the other node is awaited after the queue pairs are connected."""

    def take(self, *names: str) -> dict[str, Any]:
        if "arrived" in names:
            os._exit(0)
        return super().take(*names)


def run(told: dict[str, Any], side: str, gpu: int, gpus: list[int], channels: Channels) -> dict[str, Any]:
    """The work and output of one process. gpus: of all processes of its node, the leading one first."""
    plan = plan_of(told["size"], len(told["first"]), told["holder"])
    devices = {f"{side}{number}": each for number, each in enumerate(told[side])}
    said: dict[str, Any] = {"side": side, "gpu": gpu}
    kind = Ending if (side, gpu) == ("second", told["ends"]) else SharedNode
    try:
        path = Path(told["folder"]) / f"{side}.sock"
        channel = channels.pop(side) if gpu == gpus[0] else None
        for other in channels.values():
            other.close()
        with kind(path, len(gpus), [gpu], told["size"], channel, BOUND_S) as node:
            if side == "first":
                if told["holder"] in (None, gpu):
                    node.memory_of(gpu)[:] = data_of(told["size"])
                if told["kill"]:
                    kill_after_a_chunk(told["kill"])
                done = send(plan, node, devices, told["chunks"])
            else:
                done = recv(plan, node, devices, told["chunks"])
                said["right"] = np.array_equal(node.memory_of(gpu), data_of(told["size"]))
        said["failed"] = done.failed
    except (ClusterError, FaninError) as error:
        said["error"] = f"{type(error).__name__}: {error}"
    return said


def main() -> None:
    told = json.loads(sys.argv[1])
    links = range(len(told["first"]))
    nodes = {"first": sorted({*links} | {told["holder"] or 0}), "second": list(range(GPUS))}
    channels: Channels = dict(zip(nodes, socket.socketpair(), strict=True))
    children = start_each(partial(run, told, side, gpu, gpus, channels) for side, gpus in nodes.items() for gpu in gpus)
    for channel in channels.values():  # else a leading process would not see the end of the other
        channel.close()
    wait_for(children)


if __name__ == "__main__":
    main()
