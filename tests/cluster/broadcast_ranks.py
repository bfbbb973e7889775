"""The processes of a hand-off by broadcasts: `broadcast_ranks.py JSON`, with a line of JSON from each.

| member of the JSON | value |
| --- | --- |
| first, second | of each link, socket and address of the device of node 1, and of node 2 |
| sizes | the data of each transfer, one after the other |
| kill | process that ends when the first chunk has arrived over link 0; 0: none |
| cut | a command that is run then; may be missing |
| senders | processes of node 1: 1 has all links, else each has one |
| tensors | whether two messages of tensors follow |
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fanin.errors import FaninError
from fanin_cluster.errors import ClusterError
from fanin_cluster.handoff.broadcast import Streams, jobs_of
from fanin_cluster.handoff.stage import Stage
from tests.cluster.forked import start_each, wait_for
from tests.cluster.sending_node import GPUS, data_of, plan_of


class Killing(Streams):
    victim = 0
    cut: Sequence[str] = ()

    def _stripe(self, link: int, memory: Any, chunks: list[tuple[int, int]]) -> tuple[int, bool]:
        if link or not (self.victim or self.cut):
            return super()._stripe(link, memory, chunks)
        count, whole = super()._stripe(link, memory, chunks[:1])
        assert whole
        if self.cut:
            subprocess.run(self.cut, check=True)
        else:
            os.kill(self.victim, signal.SIGKILL)
        self.victim, self.cut = 0, ()
        more, whole = super()._stripe(link, memory, chunks[1:])
        return count + more, whole


def handed_on(stage: Stage, side: str, gpu: bool) -> list[Any]:
    """Send, or receive as lists, messages of a program with two stages. gpu: the second is a tensor on a GPU."""
    if side == "first":
        stage.send([np.arange(6, dtype=np.int16).reshape(2, 3), np.array(0.5), np.zeros((0, 4), "f4")])
        if gpu:
            import torch

            stage.send(torch.full((3,), 7, dtype=torch.bfloat16, device="cuda"))
            return []
        registered = stage.buffer((3,), np.float32)
        registered[:] = 7
        stage.send(registered)
        return []
    messages = []
    for _ in range(2):
        messages.append([[kind_of(each), list(each.shape), each.tolist()] for each in stage.recv()])
    return messages


def kind_of(received: Any) -> str:
    return received.dtype.str if isinstance(received, np.ndarray) else str(received.dtype)


def carry(told: dict[str, Any], data: Mapping[int, Any], **place: Any) -> dict[str, Any]:
    """All transfers of a process. place: its GPUs. data: by size. Jobs get new ids each time: devices remember jobs.

    Each transfer reports its start, which all processes share, and its end: seconds of the machine's clock.
    """
    plan = plan_of(0, len(told["first"]))
    addresses = [{f"{side}{i}": each[1] for i, each in enumerate(told[side])} for side in ("first", "second")]
    side = "second" if "second_gpu" in place else "first"
    devices = {f"{side}{number}": each[0] for number, each in enumerate(told[side])}
    said: dict[str, Any] = {**place, "failed": [], "arrived": [], "begun": [], "ended": []}
    try:
        with Killing(plan, jobs_of(plan, *addresses, jid=16 * os.getppid(), key=26), devices, **place) as streams:
            if side == "first":
                streams.victim, streams.cut = told["kill"], told.get("cut", ())
            registered = streams.alloc(max(1, *told["sizes"]))  # once, as a program of many messages does
            for size in told["sizes"]:
                memory = registered[:size]
                if side == "first":
                    memory[:] = data[size]
                for stream in streams.streams.values():
                    stream.barrier()
                said["begun"].append(time.monotonic())
                done = streams.carry(memory)
                said["ended"].append(time.monotonic())
                said["failed"].append(done.failed)
                said["arrived"].append([each.length for each in done.arrived if each.owner == 0])
                if not np.array_equal(memory, data[size]):
                    return {**said, "error": f"other data than those of {size} bytes"}
            if told["tensors"]:
                said["tensors"] = handed_on(Stage(streams, 4096), side, bool(told.get("gpu")))
    except (ClusterError, FaninError) as error:
        said["error"] = f"{type(error).__name__}: {error}"
    return said


def main() -> None:
    told = json.loads(sys.argv[1])
    links = range(len(told["first"]))
    places: list[dict[str, Any]] = [{"second_gpu": gpu} for gpu in range(GPUS)]
    places += [{"first_gpus": list(links)}] if told["senders"] == 1 else [{"first_gpus": [link]} for link in links]
    data = {size: data_of(size) for size in told["sizes"]}
    wait_for(start_each(partial(carry, told, data, **place) for place in places))


if __name__ == "__main__":
    main()
