"""The world of a topology, made once for any number of schedules: devices, their snapshots, and all tables."""

from typing import NamedTuple

import numpy as np

from fanin_nic.engine.records.actions import RECEIVED
from fanin_nic.transport import events
from fanin_nic.transport.transport import Limits, Transport
from fanin_sim.kernel.world import Tables
from fanin_sim.rdma.programs import QKEY
from fanin_sim.rdma.tables import COUNTERS, DEVICE, GENERATIONS, RECEIVE, REQUEST, REQUESTS, SIDE, SIDE_BYTES, WORLD
from fanin_wire.abi import RECEIVE_WQE, SEND_WQE
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, QueuePairState

PACKETS = 1024  # under way at one time
INBOX = 256
PACKET_STRIDE = 4096 + 64
TRACE_LINES = 1 << 15
DOMAIN, TAG = 5, 0x5A5A
RIGHTS = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
LIMITS = Limits(
    queue_pairs=4, send_depth=16, receive_depth=16, shared_queues=2, shared_depth=64, regions=2, actions=256, window=16
)
FIRST_SHARED = 2**32 - 8  # number of the first request of a shared queue: the numbers run over
# Number of arguments of each event.
ARGUMENTS = {
    "packets": 5,
    "post_send": 4,
    "post_receive": 4,
    "post_shared": 4,
    "serve": 3,
    "tick": 2,
    "fail": 3,
    "wake": 3,
}


class Connection(NamedTuple):
    one: int
    other: int
    service: Service


class Topology(NamedTuple):
    name: str
    devices: int
    connections: tuple[Connection, ...]


TOPOLOGIES = (
    Topology("two devices", 2, (Connection(0, 1, Service.RC),)),
    Topology("two devices, two connections", 2, (Connection(0, 1, Service.RC), Connection(1, 0, Service.RC))),
    Topology(
        "three devices", 3, (Connection(0, 1, Service.RC), Connection(1, 2, Service.RC), Connection(2, 0, Service.RC))
    ),
    Topology(
        "all services", 2, (Connection(0, 1, Service.RC), Connection(0, 1, Service.UC), Connection(0, 1, Service.UD))
    ),
)


class World(Tables):
    """A topology as the tables of a WORLD record. snapshots: the state from which every schedule begins, by device."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        super().__init__(WORLD)
        self.transports = [Transport(f"10.0.0.{1 + number}", limits=LIMITS) for number in range(topology.devices)]
        self._make_devices()
        self._make_sides()
        self._make_room()
        self._name_events(events, ARGUMENTS)

    def _bytes(self, size: int) -> np.ndarray:
        memory = np.zeros(-(-size // 8), np.uint64)
        self._kept.append(memory)
        return memory

    def _make_devices(self) -> None:
        sides = np.zeros(self.topology.devices, np.int64)
        for connection in self.topology.connections:
            sides[connection.one] += 1
            sides[connection.other] += 1
        self.record["device_count"] = self.topology.devices
        self.devices = self._table("devices", DEVICE, self.topology.devices)
        for row, transport, count in zip(self.devices, self.transports, sides, strict=True):
            size = int(count) * SIDE_BYTES
            memory, model, inbox = self._bytes(size), self._bytes(size), self._bytes(4 * INBOX)
            row["memory"], row["model"], row["memory_size"] = memory.ctypes.data, model.ctypes.data, size
            row["inbox"], row["inbox_room"] = inbox.ctypes.data, INBOX
            row["address"] = transport.header["address"]
            row["key"] = transport.register(memory.ctypes.data, size, RIGHTS, domain=DOMAIN, tag=TAG)
            row["base"], row["size"] = transport.base, len(transport.arena)

    def _make_sides(self) -> None:
        self.record["side_count"] = 2 * len(self.topology.connections)
        rows = self._table("sides", SIDE, 2 * len(self.topology.connections))
        used = [0] * self.topology.devices
        for number, connection in enumerate(self.topology.connections):
            for end, device in enumerate((connection.one, connection.other)):
                row = rows[2 * number + end]
                other = (connection.other, connection.one)[end]
                row["device"], row["kind"] = device, connection.service
                row["shared_queue"] = connection.service != Service.RC  # which drop what they can not receive
                row["memory_at"] = used[device] * SIDE_BYTES
                row["row"] = self._make_queue_pair(device, other, connection.service)
                used[device] += 1
        for transport in self.transports:
            for _ in range(LIMITS.shared_queues):
                transport.create_shared_queue(domain=DOMAIN)
            transport.tables["shared_queues"]["head"] = transport.tables["shared_queues"]["tail"] = FIRST_SHARED
        self.snapshots = [transport.arena.copy() for transport in self.transports]
        self.devices["snapshot"] = [snapshot.ctypes.data for snapshot in self.snapshots]

    def _make_queue_pair(self, device: int, other: int, service: Service) -> int:
        """A queue pair in state RTS. A schedule sets the rest when it connects it."""
        transport = self.transports[device]
        index = transport.create_queue_pair(service, send_cq=0, receive_cq=1, domain=DOMAIN)
        row = transport.queue_pair(index)
        row["state"], row["access"], row["qkey"] = QueuePairState.RTS, RIGHTS, QKEY
        row["destination"], row["rnr_timer"] = self.transports[other].header["address"], 14
        return index

    def _make_room(self) -> None:
        links, sides = self.topology.devices**2, int(self.record["side_count"])
        self._table("requests", REQUEST, sides * GENERATIONS * REQUESTS)
        self._table("receives", RECEIVE, sides * GENERATIONS * REQUESTS)
        self._make_kernel_room(PACKETS, PACKET_STRIDE, links, links * COUNTERS, TRACE_LINES)
        self._table("received", RECEIVED, INBOX)
        self._table("send_wqe", SEND_WQE, 1)
        self._table("receive_wqe", RECEIVE_WQE, 1)
