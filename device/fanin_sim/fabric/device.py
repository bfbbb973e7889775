"""A simulated device: an engine, and a driver that executes its actions in virtual time."""

import ctypes
import ipaddress
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from fanin_nic.engine.engine import Engine, Limits, Timing
from fanin_nic.engine.records.accessors import U64, engine_at
from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.engine.requests.posting import add_region
from fanin_sim.fabric.action_executor import ActionBuffers, perform
from fanin_sim.fabric.invariants import Broken, BrokenInvariant, Watch
from fanin_sim.jit import compiled
from fanin_wire import abi, fields
from fanin_wire.abi import Status

ALL_ACCESS = abi.Access.READ | abi.Access.WRITE
WHOLE_ADDRESS_SPACE = 2**47
OPCODES = {int(opcode): opcode for opcode in fields.Opcode}


class StrayWrite(AssertionError):
    """The engine has asked for a write outside of all registered memory: violates I6."""


class Packet(NamedTuple):
    """A packet on a link, from the BTH to before the ICRC."""

    source: int
    destination: int
    opcode: fields.Opcode
    position: int
    data: bytes


class Arrival(NamedTuple):
    """Data that a rank has not asked for yet."""

    queue: int
    mid: int
    data: bytes


class Read(NamedTuple):
    """A DMA read of process memory under way, and the status with which it will end."""

    action: np.void
    status: int


@compiled
def _register(base, client, lkey, start, length, access, mapped):
    return add_region(engine_at(U64(base)), client, lkey, U64(start), U64(length), access, U64(mapped))


class Device:
    """A NIC or a switch.

    `completions` and `notices`: what the device reports to its ranks, as records of actions.ACTION; `arrivals`: data
    that come before they are asked for. `next_deadline` and `slots_used`: of the engine after the last event.

    The clients live in the simulation's own process, so their virtual addresses are real pointers. Only memory passed
    to `register` or `allow` exists: a read of other memory fails, and a write to it raises StrayWrite.
    """

    def __init__(
        self,
        address: str,
        *,
        is_switch: bool = False,
        limits: Limits,
        timing: Timing,
        boot_id: int = 1,
        group: str | None = None,
        staging: ActionBuffers | None = None,
    ) -> None:
        self.address = int(ipaddress.IPv4Address(address))
        self.engine = Engine(address, is_switch=is_switch, boot_id=boot_id, group=group, limits=limits, timing=timing)
        self.group = int(self.engine.header["group"])  # 0: none
        self.watch = Watch(self.engine)
        self.completions: list[np.void] = []
        self.notices: list[np.void] = []
        self.arrivals: list[Arrival] = []
        self.reads: list[Read] = []
        self.next_deadline, self.slots_used = self.engine.next_deadline, 0
        self._staging = staging or ActionBuffers(limits)
        self._areas = np.zeros((0, 2), np.uint64)  # (start, length) of each area
        self._areas_given = self._areas.ctypes.data, 0
        self._sorted = 0
        self._by_queue: defaultdict[int, list[np.void]] = defaultdict(list)

    # Clients

    def register(self, client: int, memory: np.ndarray, lkey: int = 1, access: int = ALL_ACCESS) -> None:
        """Registers an array for the WQEs of a client. Raises ValueError if the device's table of regions is full."""
        start = memory.ctypes.data
        if not _register(self.engine.base, client, lkey, start, memory.nbytes, access, start):
            raise ValueError("the table of regions is full")
        self.allow(memory)

    def register_process(self, client: int) -> None:
        """Lets the WQEs of a client name its ordinary memory, by LKEY_PROCESS. Raises ValueError as `register`."""
        if not _register(self.engine.base, client, abi.LKEY_PROCESS, 0, WHOLE_ADDRESS_SPACE, ALL_ACCESS, 0):
            raise ValueError("the table of regions is full")

    def allow(self, memory: np.ndarray) -> None:
        """Adds an array to the memory that exists: reads of it and writes to it succeed."""
        area = np.array([[memory.ctypes.data, memory.nbytes]], np.uint64)
        self._areas = np.concatenate([self._areas, area])
        self._areas_given = self._areas.ctypes.data, len(self._areas)

    def open_queue(self, queue: int, client: int) -> None:
        record = self.engine.tables["queues"][queue]
        record["active"] = 1
        record["client"] = client

    def completions_of(self, queue: int) -> list[np.void]:
        for entry in self.completions[self._sorted :]:
            self._by_queue[int(entry["queue"])].append(entry)
        self._sorted = len(self.completions)
        return self._by_queue[queue]

    # Events

    def receive(self, packet: Packet, now: int) -> list[Packet]:
        """Processes a packet that has arrived. Returns the packets that the device sends at once."""
        size = len(packet.data)
        self._staging.inbox_bytes[:size] = packet.data  # results are written from here
        self.engine.packet(self._staging.inbox_address, size, packet.source, now)
        return self.perform()

    def finish_read(self, read: Read, now: int) -> None:
        self.engine.dma_done(read.action, int(read.action["remote"]), read.status, now)

    def perform(self) -> list[Packet]:
        """Executes the engine's actions and checks its invariants. Returns the packets that the device sends.

        Raises StrayWrite or BrokenInvariant.
        """
        staging = self._staging
        perform(self.engine.base, *self._areas_given, *staging.addresses, *self.watch.addresses)
        self.next_deadline, self.slots_used, packets, others, stray, broken, _ = staging.outcome.item()
        if stray:
            raise StrayWrite(self._describe_write(stray - 1))
        if broken:
            raise BrokenInvariant(Broken(broken).name)
        if others:
            self._tell_ranks()
        return self._packets(packets) if packets else []

    def _packets(self, count: int) -> list[Packet]:
        data = self._staging.outbox_bytes
        return [
            Packet(self.address, destination, OPCODES[opcode], position, bytes(data[start : start + length]))
            for destination, opcode, position, length, start in self._staging.sent[:count].tolist()
        ]

    def _tell_ranks(self) -> None:
        actions, _ = self.engine.take_actions()
        for action in actions:
            match action["kind"]:
                case ActionKind.DMA_READ:
                    readable = self._exists(int(action["remote"]), int(action["length"]))
                    self.reads.append(Read(action, Status.SUCCESS if readable else Status.LOCAL_PROTECTION_ERROR))
                case ActionKind.ARRIVAL:
                    data = ctypes.string_at(int(action["payload"]), int(action["length"]))
                    self.arrivals.append(Arrival(int(action["queue"]), int(action["mid"]), data))
                case ActionKind.COMPLETE:
                    self.completions.append(action)
                case ActionKind.NOTICE if action["status"] != Status.PENDING:
                    self.notices.append(action)

    def _exists(self, address: int, length: int) -> bool:
        return any(start <= address and address + length <= start + size for start, size in self._areas.tolist())

    def _describe_write(self, number: int) -> str:
        action = self.engine.tables["actions"][number]
        return f"{action['length']} bytes to {int(action['remote']):#x}"
