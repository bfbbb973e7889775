"""One device of a simulation: an engine, and a driver that performs its actions in virtual time."""

from __future__ import annotations

import ctypes
import ipaddress
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fanin_nic.engine.actions import ActionKind
from fanin_nic.engine.engine import Engine, Limits, Timing
from fanin_nic.engine.state import U64, engine_at
from fanin_nic.engine.transfer.regions import add_region
from fanin_nic.native.codec import encode_header
from fanin_nic.native.compiled import compiled
from fanin_nic.sim.invariants import Watch
from fanin_wire import abi, fields

PENDING = int(abi.Status["PENDING"])
SUCCESS, LOCAL_PROTECTION_ERROR = int(abi.Status["SUCCESS"]), int(abi.Status["LOCAL_PROTECTION_ERROR"])
ALL_ACCESS = int(abi.Access.READ | abi.Access.WRITE)
WHOLE_ADDRESS_SPACE = 2**47


class StrayWrite(AssertionError):
    """The engine asked for a write outside the memory that the client has registered (invariant I6)."""


class Packet(NamedTuple):
    """A packet on its way; `data` from the BTH to before the ICRC."""

    source: int
    destination: int
    opcode: fields.Opcode
    position: int
    data: bytes


class Read(NamedTuple):
    """A DMA_READ of process memory under way, and how it will end."""

    action: np.void
    status: int


@compiled
def _encode(header, packet):
    encode_header(header, packet)


@compiled
def _register(base, client, lkey, start, length, access, mapped):
    return add_region(engine_at(U64(base)), client, lkey, U64(start), U64(length), access, U64(mapped))


class Device:
    """A NIC or a switch; `completions` and `notices` collect what it tells its ranks, as records of actions.ACTION.

    Its clients live in the simulation's own process: their virtual addresses are real pointers. Memory that was neither
    registered nor named to `allow` does not exist: a read of it fails, a write is a violation.
    """

    def __init__(
        self, address: str, *, is_switch: bool = False, limits: Limits, timing: Timing, boot_id: int = 1
    ) -> None:
        self.address = int(ipaddress.IPv4Address(address))
        self.engine = Engine(address, is_switch=is_switch, boot_id=boot_id, limits=limits, timing=timing)
        self.watch = Watch(self.engine)
        self.completions: list[np.void] = []
        self.notices: list[np.void] = []
        self.reads: list[Read] = []
        self._memory: list[tuple[int, int]] = []

    def register(self, client: int, memory: np.ndarray, lkey: int = 1, access: int = ALL_ACCESS) -> None:
        """Let a client's WQEs name a numpy array."""
        start = memory.ctypes.data
        if not _register(self.engine.base, client, lkey, start, memory.nbytes, access, start):
            raise ValueError("no room for another region")
        self.allow(memory)

    def register_process(self, client: int) -> None:
        """Let a client's WQEs name its ordinary memory by LKEY_PROCESS."""
        if not _register(self.engine.base, client, abi.LKEY_PROCESS, 0, WHOLE_ADDRESS_SPACE, ALL_ACCESS, 0):
            raise ValueError("no room for another region")

    def allow(self, memory: np.ndarray) -> None:
        """This array exists in the memory of a process: reads and writes of it succeed."""
        self._memory.append((memory.ctypes.data, memory.nbytes))

    def open_queue(self, queue: int, client: int) -> None:
        """Make a send queue known."""
        record = self.engine.tables["queues"][queue]
        record["active"] = 1
        record["client"] = client

    def receive(self, packet: Packet, now: int) -> list[Packet]:
        """A packet has arrived; what the device sends at once."""
        data = np.frombuffer(packet.data, np.uint8)
        self.engine.packet(data.ctypes.data, len(data), packet.source, now)
        return list(self.perform())  # while `data` exists: results are written from it

    def perform(self) -> Iterator[Packet]:
        """Do what the engine asks for; yields the packets that it sends."""
        actions, headers = self.engine.take_actions()
        for action, header in zip(actions, headers, strict=True):
            match action["kind"]:
                case ActionKind.SEND:
                    yield self._packet(action, header)
                case ActionKind.DMA_WRITE:
                    self._write(int(action["remote"]), int(action["payload"]), int(action["length"]))
                case ActionKind.DMA_READ:
                    readable = self._exists(int(action["remote"]), int(action["length"]))
                    self.reads.append(Read(action, SUCCESS if readable else LOCAL_PROTECTION_ERROR))
                case ActionKind.COMPLETE:
                    self.completions.append(action)
                case ActionKind.NOTICE if action["status"] != PENDING:
                    self.notices.append(action)
        self.watch.check()

    def finish_read(self, read: Read, now: int) -> None:
        """The data of a DMA_READ have come."""
        self.engine.dma_done(read.action, int(read.action["remote"]), read.status, now)

    def _exists(self, address: int, length: int) -> bool:
        return any(start <= address and address + length <= start + size for start, size in self._memory)

    def _write(self, remote: int, payload: int, length: int) -> None:
        if not self._exists(remote, length):
            raise StrayWrite(f"{length} bytes to {remote:#x}")
        ctypes.memmove(remote, payload, length)

    def _packet(self, action: np.void, header: np.void) -> Packet:
        length = int(action["length"])
        padding = -length % 4
        header["padcount"] = padding
        transport = np.zeros(fields.TRANSPORT_SIZE, np.uint8)
        _encode(header.__array_interface__["data"][0], transport.ctypes.data)
        payload = ctypes.string_at(int(action["payload"]), length) if length else b""
        return Packet(
            self.address,
            int(action["destination"]),
            fields.Opcode(int(header["opcode"])),
            int(header["position"]),
            transport.tobytes() + payload + bytes(padding),
        )
