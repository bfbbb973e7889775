"""The floor over hosts: a rank and a NIC on each host, and a switch, over loopback or namespaces."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np

from fanin_nic.port.group import enable_group_send, join_group
from fanin_nic.port.sockets import SO_RCVBUFFORCE, set_buffer
from fanin_nic.port.tables import UDP_GRO, UDP_SEGMENT
from fanin_tools.bench import floor
from fanin_tools.bench.floor import SUM, Row, SharedState, address_of, rounds_of, shared_bytes
from fanin_tools.bench.floor_tree_kernels import BUFFER, HEADERS, PACKET, PAYLOAD, TAIL, WINDOW, run_nic, run_switch
from fanin_tools.bench.network import Task, host_of, network, run_together
from fanin_tools.bench.samples import Summary
from fanin_tools.errors import ToolError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Shape
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import render_size
from fanin_wire.fields import UDP_PORT

MIN_BUFFER, MAX_BUFFER = (
    4 << 20,
    1 << 30,
)  # bytes of a socket's buffer: what is asked for at least, and what can be asked for


def measure(nodes: int, netns: bool, sizes: Sequence[int], name: str, progress: ProgressCallback) -> list[Row]:
    """Measure every size with every number of yields, with a rank on each of `nodes` hosts."""
    for size in sizes:
        require_buffer(nodes, size)
    compile_all()
    rows = []
    with network(name, Shape(nodes, 1, netns=netns)) as fabric:
        for size in sizes:
            progress(f"{render_size(size)} ...")
            for checks in (False, True):
                for ranks, devices in floor.YIELD_COUNTS:
                    found = FloorMeasurement(fabric, size, checks, ranks, devices).run()
                    rows.append(Row(size, checks, ranks, devices, found))
    return rows


def compile_all() -> None:
    """Compile the kernels once, before processes are forked that would each compile them."""
    nowhere, counts = np.uint64(0), np.zeros(1, np.int64)
    floor.compile_rank()
    run_nic(nowhere, nowhere, nowhere, nowhere, 0, 0, 0, 0, 0, 0, (nowhere,) * 3, nowhere, False)
    run_switch(0, np.zeros(0, np.int32), 0, 0, 0, (nowhere,) * 2, counts, nowhere, SUM, False)


def grow_buffer(udp: socket.socket, needed: int) -> int:
    """Let a socket hold `needed` bytes of packets, if the system allows it. Returns the bytes that it can hold."""
    return set_buffer(udp, SO_RCVBUFFORCE, socket.SO_RCVBUF, min(max(MIN_BUFFER, 2 * needed), MAX_BUFFER))


def require_buffer(nodes: int, size: int) -> None:
    """Raise ToolError NO_RESOURCES if the socket of the switch can not hold the packets that all nodes may send."""
    needed = nodes * min(packet_bytes(size), int(WINDOW))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        room = grow_buffer(udp, needed)
    if room < needed:
        cause = f"a socket holds {render_size(room)}, and {render_size(needed)} may be on their way to the switch"
        raise ToolError("NO_RESOURCES", cause, "be root, raise net.core.rmem_max, or choose shorter --sizes")


def packet_bytes(size: int) -> int:
    """Bytes of all packets of a message of `size` bytes."""
    whole, rest = divmod(size, PAYLOAD)
    return whole * int(PACKET) + (rest + int(HEADERS + TAIL) if rest else 0)


class Message:
    """The packets of a message of `size` bytes in shared memory. Its data are `factor` times `floor.elements`."""

    def __init__(self, size: int, factor: int = 0) -> None:
        self._bytes = size
        self.packets, self.size = -(-size // PAYLOAD), packet_bytes(size)
        data = floor.elements(size) * np.float32(factor)
        self._memory = shared_bytes(
            self.packets * int(PACKET) + BUFFER
        )  # room for a whole datagram after the last packet
        self.address = address_of(self._memory)
        for number in range(self.packets):
            packet = self._memory[number * int(PACKET) : min((number + 1) * int(PACKET), self.size)]
            packet[:4] = np.array([number], np.uint32).view(np.uint8)
            packet[int(HEADERS) : -int(TAIL)].view(np.float32)[:] = data[number * PAYLOAD // 4 :][: PAYLOAD // 4]

    def payloads(self) -> np.ndarray:
        """All elements, f32. (The length of the headers is a whole number of elements.)"""
        packets = self._memory[: self.packets * int(PACKET)].view(np.float32).reshape(self.packets, -1)
        return packets[:, int(HEADERS) // 4 : -int(TAIL) // 4].reshape(-1)[: self._bytes // 4]


class FloorMeasurement:
    """One measurement: the memory that its processes share, and the work of each process."""

    def __init__(self, fabric: Fabric, size: int, checks: bool, rank_yields: int, device_yields: int) -> None:
        self._fabric, self._bytes, self._checks = fabric, size, checks
        self._rank_yields, self._device_yields = rank_yields, device_yields
        self._rounds = sum(rounds_of(size))
        self._count = count = len(fabric.nics)
        self._data = [Message(size, number + 1) for number in range(count)]
        self._results = [Message(size) for _ in range(count)]
        self._shared = SharedState(count, count, 2 * count + 1, apart=True)

    def run(self) -> Summary:
        """Run all rounds."""
        tasks: list[Task] = [(host_of(self._fabric, "switch"), self._switch)]
        for number, nic in enumerate(self._fabric.nics):
            host = host_of(self._fabric, nic.name)
            tasks.append((host, lambda number=number: self._nic(number)))  # type: ignore[misc]
            tasks.append((host, lambda number=number: self._rank(number)))  # type: ignore[misc]
        try:
            found = run_together(tasks)
        finally:
            self._shared.close()
        return floor.summary_of(found[2::2], [result.payloads() for result in self._results])

    def _rank(self, number: int) -> list[int]:
        return self._shared.run_rank(number, self._rank_yields, self._bytes)

    def _nic(self, number: int) -> bool:
        shared, device = self._shared, self._count + number
        buffer = np.zeros(BUFFER, np.uint8)
        with ExitStack() as stack:
            receiver = self._receiver(stack, self._fabric.nics[number].address, 1, self._fabric.device("switch").group)
            sender = self._sender(stack, self._fabric.nics[number].address, self._fabric.device("switch").address)
            shared.barrier(device)
            good, _ = run_nic(
                shared.begun(number, 0),
                shared.done(number, 0),
                shared.sleeping_flag(device),
                shared.sleeping_flag(number),
                shared.event(device),
                shared.event(number),
                receiver,
                sender,
                self._device_yields,
                self._rounds,
                (self._data[number].address, self._results[number].address, address_of(buffer)),
                np.uint64(self._data[number].size),
                self._checks,
            )
        return bool(good)

    def _switch(self) -> bool:
        switch, sums, buffer = self._fabric.device("switch"), Message(self._bytes), np.zeros(BUFFER, np.uint8)
        below = [switch.group] if switch.group else [nic.address for nic in self._fabric.nics]
        with ExitStack() as stack:
            receiver = self._receiver(stack, switch.address, self._count, "")
            senders = np.array([self._sender(stack, switch.address, other) for other in below], np.int32)
            self._shared.barrier(2 * self._count)
            good, _ = run_switch(
                receiver,
                senders,
                self._device_yields,
                self._rounds,
                self._count,
                (address_of(buffer), sums.address),
                np.zeros(sums.packets, np.int64),
                np.uint64(sums.size),
                SUM,
                self._checks,
            )
        return bool(good)

    def _receiver(self, stack: ExitStack, address: str, messages: int, group: str) -> int:
        """A socket with room for `messages` messages. It joins `group`, if that is not ""."""
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
        grow_buffer(udp, messages * min(self._data[0].size, int(WINDOW)))
        udp.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        if group:
            join_group(udp, group, address, UDP_PORT, 0)
        else:
            udp.bind((address, UDP_PORT))
        return udp.fileno()

    def _sender(self, stack: ExitStack, address: str, other: str) -> int:
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
        udp.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, int(PACKET))
        udp.bind((address, 0))
        enable_group_send(udp, address)
        udp.connect((other, UDP_PORT))
        return udp.fileno()
