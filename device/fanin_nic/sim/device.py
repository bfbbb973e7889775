"""One device of a simulation: an engine, and a driver that performs its actions in virtual time."""

from __future__ import annotations

import ctypes
import ipaddress
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fanin_nic.engine.actions import ActionKind
from fanin_nic.engine.engine import Engine, Limits, Timing
from fanin_nic.engine.transfer.regions import add_region
from fanin_nic.native.codec import encode_header
from fanin_nic.native.compiled import compiled
from fanin_nic.engine.state import U64, engine_at
from fanin_wire import abi, fields


class Packet(NamedTuple):
    """A packet on its way; `data` from the BTH to before the ICRC."""

    source: int
    destination: int
    opcode: fields.Opcode
    position: int
    data: bytes


@compiled
def _encode(header, packet):
    encode_header(header, packet)


@compiled
def _register(base, client, lkey, start, length, access, mapped):
    return add_region(engine_at(U64(base)), client, lkey, U64(start), U64(length), access, U64(mapped))


PENDING = int(abi.Status["PENDING"])
ALL_ACCESS = int(abi.Access.READ | abi.Access.WRITE)


class Device:
    """A NIC or a switch; `completions` and `notices` collect what it tells its ranks, as records of actions.ACTION."""

    def __init__(
        self, address: str, *, is_switch: bool = False, limits: Limits, timing: Timing, boot_id: int = 1
    ) -> None:
        self.address = int(ipaddress.IPv4Address(address))
        self.engine = Engine(address, is_switch=is_switch, boot_id=boot_id, limits=limits, timing=timing)
        self.completions: list[np.void] = []
        self.notices: list[np.void] = []

    def register(self, client: int, memory: np.ndarray, lkey: int = 1) -> None:
        """Let a client's WQEs name a numpy array."""
        start = memory.ctypes.data
        if not _register(self.engine.base, client, lkey, start, memory.nbytes, ALL_ACCESS, start):
            raise ValueError("no room for another region")

    def open_queue(self, queue: int, client: int) -> None:
        """Make a send queue known."""
        record = self.engine.tables["queues"][queue]
        record["active"] = 1
        record["client"] = client

    def receive(self, packet: Packet, now: int) -> None:
        """A packet has arrived."""
        data = np.frombuffer(packet.data, np.uint8)
        self.engine.packet(data.ctypes.data, len(data), packet.source, now)
        self._after_event = data  # results are written from it by the next `perform`

    def perform(self, now: int) -> Iterator[Packet]:
        """Do what the engine asks for; yields the packets that it sends."""
        while int(self.engine.header["action_count"]):
            actions, headers = self.engine.take_actions()
            for action, header in zip(actions, headers, strict=True):
                match action["kind"]:
                    case ActionKind.SEND:
                        yield self._packet(action, header)
                    case ActionKind.DMA_WRITE:
                        ctypes.memmove(int(action["remote"]), int(action["payload"]), int(action["length"]))
                    case ActionKind.DMA_READ:
                        self.engine.dma_done(action, int(action["remote"]), 0, now)
                    case ActionKind.COMPLETE:
                        self.completions.append(action)
                    case ActionKind.NOTICE if action["status"] != PENDING:
                        self.notices.append(action)

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
