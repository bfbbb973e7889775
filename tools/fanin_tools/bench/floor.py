"""What waking processes costs by itself: the shortest message of a tree, without any engine.

The same processes and hops as an allreduce of 8 bytes over namespaces or loopback: each rank rings its NIC (a word of
shared memory, an eventfd if it sleeps), each NIC sends a datagram to the switch, which waits for all of them and sends
one to each NIC, which tells its rank. Nothing is computed, checked, kept or asked for again: no device that waits in
this way can be faster. Everybody yields so many times before he sleeps; which numbers are best depends on the cores.
"""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from fanin_tools.bench.floor_kernels import be_nic, be_rank, be_switch
from fanin_tools.bench.network import SharedWords, Task, host_of, network, run_together
from fanin_tools.bench.samples import Summary, slowest_rank
from fanin_tools.errors import ToolError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.devices import Say
from fanin_tools.fabric.generate import Shape
from fanin_wire.fields import UDP_PORT

YIELDS = ((0, 0), (3, 3), (3, 50), (50, 50))  # of ranks, of devices
FIRST = 200  # rounds that do not count
ROUNDS = 2000
WORDS_PER_RANK = 4  # doorbell, done, the rank sleeps, the NIC sleeps: as of floor_kernels
ADDRESS_SIZE = 16  # struct sockaddr_in


@dataclass(frozen=True)
class Row:
    """Yields before sleep, and the time of the slowest rank."""

    rank_yields: int
    device_yields: int
    microseconds: Summary


def measure(nodes: int, netns: bool, name: str, say: Say) -> list[Row]:
    """Every number of yields, with a rank on each of `nodes` hosts."""
    compile_all()
    rows = []
    with network(name, Shape(nodes, 1, netns=netns)) as fabric:
        for ranks, devices in YIELDS:
            say(f"{ranks} yields of ranks, {devices} of devices ...")
            rows.append(Row(ranks, devices, Summary.of(_run(fabric, ranks, devices))))
    return rows


def compile_all() -> None:
    """Once, before there are processes that would each do so."""
    nowhere = np.uint64(0)
    be_rank(nowhere, 0, 0, 0, 0, nowhere)
    be_nic(nowhere, 0, 0, 0, 0, 0, 0)
    be_switch(0, np.zeros(0, np.int32), 0, 0)


def _run(fabric: Fabric, rank_yields: int, device_yields: int) -> list[int]:
    """Nanoseconds of each round, of its slowest rank."""
    scene = Scene(fabric, rank_yields, device_yields)
    count = len(fabric.nics)
    tasks: list[Task] = [(host_of(fabric, "switch"), scene.switch)]
    for number, nic in enumerate(fabric.nics):
        tasks.append((host_of(fabric, nic.name), lambda number=number: scene.nic(number)))  # type: ignore[misc]
        tasks.append((host_of(fabric, nic.name), lambda number=number: scene.rank(number)))  # type: ignore[misc]
    found = run_together(tasks)
    scene.close()
    ranks = found[2::2]
    if len(ranks) != count or not all(ranks):
        raise ToolError("TIMEOUT", "a datagram was lost on an idle link", "run it again, with fewer other programs")
    return slowest_rank(ranks)


class Scene:
    """What the processes share, and what each of them does."""

    def __init__(self, fabric: Fabric, rank_yields: int, device_yields: int) -> None:
        self._fabric = fabric
        self._rank_yields, self._device_yields = rank_yields, device_yields
        nics = len(fabric.nics)
        self._everybody = 2 * nics + 1
        self._words = SharedWords(self._everybody + WORDS_PER_RANK * nics)
        self._rank_events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(nics)]
        self._nic_events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(nics)]

    def close(self) -> None:
        """Of the process that has made it."""
        for event in (*self._rank_events, *self._nic_events):
            os.close(event)

    def rank(self, number: int) -> list[int]:
        """Nanoseconds of each round."""
        times = np.zeros(FIRST + ROUNDS, np.int64)
        common = self._places(number), self._rank_events[number], self._nic_events[number], self._rank_yields
        self._words.meet(2 * number, self._everybody)
        good = be_rank(*common, len(times), np.uint64(times.ctypes.data))
        return times[FIRST:].tolist() if good else []

    def nic(self, number: int) -> bool:
        """Between its rank and the switch."""
        with ExitStack() as stack:
            address = self._fabric.nics[number].address
            receiver = _bound(stack, address)
            sender = _towards(stack, address, self._fabric.device("switch").address)
            common = self._places(number), self._nic_events[number], self._rank_events[number]
            descriptors = receiver.fileno(), sender.fileno(), self._device_yields
            self._words.meet(2 * number + 1, self._everybody)
            return bool(be_nic(*common, *descriptors, FIRST + ROUNDS))

    def switch(self) -> bool:
        """Between all NICs."""
        with ExitStack() as stack:
            address = self._fabric.device("switch").address
            receiver = _bound(stack, address)
            senders = [_towards(stack, address, nic.address) for nic in self._fabric.nics]
            descriptors = np.array([sender.fileno() for sender in senders], np.int32)
            self._words.meet(self._everybody - 1, self._everybody)
            return bool(be_switch(receiver.fileno(), descriptors, self._device_yields, FIRST + ROUNDS))

    def _places(self, number: int) -> np.uint64:
        return self._words.address(self._everybody + WORDS_PER_RANK * number)


def _bound(stack: ExitStack, address: str) -> socket.socket:
    receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
    receiver.bind((address, UDP_PORT))
    return receiver


def _towards(stack: ExitStack, address: str, other: str) -> socket.socket:
    sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sender.bind((address, 0))
    sender.connect((other, UDP_PORT))
    return sender
