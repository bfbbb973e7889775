"""A network without devices, and processes on its hosts that run together for the time of one measurement."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fanin_tools.errors import ToolError
from fanin_tools.fabric import loopback, namespaces
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import NETNS_PREFIX, Plan, Shape

SECONDS = 60.0  # of one measurement at most
POLL_SECONDS = 0.0005

Task = tuple[
    str, Callable[[], Any]
]  # the network namespace that it runs in ("": this one), and what is to be done there


@contextlib.contextmanager
def network(name: str, shape: Shape) -> Iterator[Fabric]:
    """The addresses and links of a fabric, whose devices do not run."""
    plan = Plan(name, shape)
    if not shape.netns:
        with loopback.reserved(plan) as fabric:
            yield fabric
        return
    fabric = plan.at(NETNS_PREFIX)
    namespaces.require()
    try:
        namespaces.build(fabric)
        yield fabric
    finally:
        namespaces.remove(fabric)


def host_of(fabric: Fabric, device: str) -> str:
    """The namespace of a device, for a Task."""
    return namespaces.namespace(fabric, fabric.device(device).host) if fabric.netns else ""


class SharedWords:
    """32-bit words, each in a cache line of its own, that forked processes share."""

    LINE = 64

    def __init__(self, count: int) -> None:
        self.count = count
        self._memory = mmap.mmap(-1, count * self.LINE)
        self._words = np.frombuffer(self._memory, np.uint32)

    def address(self, number: int) -> np.uint64:
        """Of a word, for compiled code."""
        return np.uint64(self._words.ctypes.data + number * self.LINE)

    def meet(self, number: int, count: int) -> None:
        """Wait until the words 0 to `count` - 1 are set; sets that of this process first."""
        place = self.LINE // self._words.itemsize
        self._words[number * place] = 1
        end = time.monotonic() + SECONDS
        while not self._words[: count * place : place].all():
            if time.monotonic() > end:
                raise TimeoutError("the others did not begin")
            time.sleep(POLL_SECONDS)


def run_together(tasks: Sequence[Task]) -> list[Any]:
    """Carry out all tasks at once, each in a process of its own; what they return (JSON). ToolError if one fails."""
    children = [_fork(*task) for task in tasks]
    try:
        return [_result(reader) for _, reader in children]
    finally:
        for process, reader in children:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(reader)


def _fork(namespace: str, act: Callable[[], Any]) -> tuple[int, int]:
    """Process id, and the pipe on which the result comes."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    try:
        if namespace:
            namespaces.enter(namespace)
        os.write(writer, json.dumps(act()).encode() + b"\n")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _result(reader: int) -> Any:
    text, end = b"", time.monotonic() + SECONDS
    while not text.endswith(b"\n"):
        if not select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
            raise ToolError("TIMEOUT", f"no result within {SECONDS:.0f} s", "look whether this machine is overloaded")
        piece = os.read(reader, 1 << 20)
        if not piece:
            raise ToolError("PROGRAM_FAILED", "a process of the measurement has failed", "its own output says why")
        text += piece
    return json.loads(text)
