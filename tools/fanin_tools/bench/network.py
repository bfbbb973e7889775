"""A network without devices, and processes on its hosts that run at the same time for one measurement."""

import contextlib
import json
import mmap
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from fanin_nic.native import shared_words
from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces, state
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import NETNS_PREFIX, Plan, Shape
from fanin_tools.progress import print_progress

SECONDS = 60.0  # of one measurement at most
POLL_SECONDS = 0.0005

# The network namespace that it runs in ("": this one), and what is to be done there
Task = tuple[str, Callable[[], Any]]


@contextlib.contextmanager
def network(name: str, shape: Shape) -> Iterator[Fabric]:
    """A fabric's addresses and links, without its devices, for the time of the block. Raises ToolError FABRIC_DIFFERS
    if namespaces of this name exist."""
    plan = Plan(name, shape)
    if not shape.netns:
        with namespaces.reserved_addresses(plan) as fabric:
            yield fabric
        return
    fabric = plan.at(NETNS_PREFIX)
    namespaces.require()
    with contextlib.ExitStack() as removed:
        with state.locked():
            namespaces.require_absent(fabric)
            removed.callback(namespaces.remove, fabric)
            namespaces.build(fabric, print_progress)
        yield fabric


def host_of(fabric: Fabric, device: str) -> str:
    """The namespace of a device, for a Task."""
    return namespaces.namespace(fabric, fabric.device(device).host) if fabric.netns else ""


class SharedWords:
    """32-bit words that forked processes share, each in a cache line of its own."""

    LINE = 64

    def __init__(self, count: int) -> None:
        self.count = count
        self._memory = mmap.mmap(-1, count * self.LINE)
        self._words = np.frombuffer(self._memory, np.uint32)

    def address(self, number: int) -> np.uint64:
        """Address of a word, for compiled code."""
        return np.uint64(self._words.ctypes.data + number * self.LINE)

    def barrier(self, number: int, count: int) -> None:
        """Wait until all `count` processes have called as often. number: of this process; its word counts calls."""
        arrivals = shared_words.load_acquire(int(self.address(number))) + 1
        shared_words.store_release(int(self.address(number)), arrivals)
        end = time.monotonic() + SECONDS
        while any(shared_words.load_acquire(int(self.address(other))) < arrivals for other in range(count)):
            if time.monotonic() > end:
                raise TimeoutError("the other processes did not begin")
            time.sleep(POLL_SECONDS)


def run_together(tasks: Sequence[Task]) -> list[Any]:
    """Run all tasks at once, each in a process; their results, which JSON can represent. Raises ToolError if a task
    fails, or has no result within SECONDS."""
    children: list[tuple[int, int]] = []
    try:
        for task in tasks:
            children.append(_fork(*task))
        return _results([reader for _, reader in children])
    finally:
        for process, reader in children:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(reader)


def _fork(namespace: str, act: Callable[[], Any]) -> tuple[int, int]:
    """Fork a process for a task. Returns its id, and the pipe for its result."""
    reader, writer = os.pipe()
    try:
        process = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        cause = f"the measurement can not start a process: {error.strerror}"
        raise ToolError("NO_RESOURCES", cause, "end other programs, or raise the limit (ulimit -u)") from error
    if process:
        os.close(writer)
        return process, reader
    _run_child(namespace, act, writer)


def _run_child(namespace: str, act: Callable[[], Any], writer: int) -> NoReturn:
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # only the parent reports Ctrl-C
        if namespace:
            namespaces.enter(namespace)
        os.write(writer, json.dumps(act()).encode() + b"\n")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _results(readers: list[int]) -> list[Any]:
    """Read all pipes at once, so that a failed process is noticed while others are waited for."""
    texts, end = dict.fromkeys(readers, b""), time.monotonic() + SECONDS
    while awaited := [reader for reader, text in texts.items() if not text.endswith(b"\n")]:
        ready = select.select(awaited, [], [], max(0.0, end - time.monotonic()))[0]
        if not ready:
            raise ToolError("TIMEOUT", f"no result within {SECONDS:.0f} s", "look whether this machine is overloaded")
        for reader in ready:
            piece = os.read(reader, 1 << 20)
            if not piece:
                raise ToolError("PROGRAM_FAILED", "a process of the measurement has failed", "its own output says why")
            texts[reader] += piece
    return [json.loads(text) for text in texts.values()]
