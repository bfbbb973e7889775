"""A job of a script: the tester plays its children, and builds and expects packets in its name."""

from __future__ import annotations

from typing import Any

import numpy as np
from scapy.packet import Packet, Raw

from fanin_conform.tester import ANY, Expected, Tester
from fanin_wire import fields
from fanin_wire.abi import ContributorClass, Op, Route, Status
from fanin_wire.datatypes import DATATYPES, datatype_of
from fanin_wire.fields import Flag, Opcode
from fanin_wire.layers import CONFIG, CONFIG_ACK, HOP, offload
from fanin_wire.operations import OPERATIONS

ALL, ONE, NONE = (int(ContributorClass[name]) << fields.CLASS_SHIFT for name in ("ALL", "ONE", "NONE"))
WANTS, DATA = int(Flag.WANTS_RESULT), int(Flag.HAS_DATA)


def f32(*values: float) -> np.ndarray:
    return np.array(values, "<f4")


def payload_of(data: np.ndarray | bytes | None) -> bytes:
    return data.tobytes() if isinstance(data, np.ndarray) else data or b""


def type_of(data: np.ndarray | bytes | None) -> dict[str, int]:
    """The field with the type of an array."""
    return {"dtype": int(datatype_of(data.dtype).code)} if isinstance(data, np.ndarray) else {}


class Job:
    """A job of `size` children at the device, which is the top. Each child is one address of the tester.

    join: all children join now. like: another job, with the same jid and key in its own lane.
    """

    def __init__(
        self,
        tester: Tester,
        size: int = 2,
        *,
        slots: int = 8,
        chunk: int = 1024,
        join: bool = True,
        lane: int = 0,
        last_lane: int = 0,
        like: Job | None = None,
    ) -> None:
        tester.profile.require_children(size)
        self.tester, self.size, self.slots, self.chunk = tester, size, slots, chunk
        self.lane, self.last_lane = lane, last_lane
        self.jid: int = like.jid if like else tester.number(32)
        self.key: int = like.key if like else tester.number(32)
        self.addresses = tester.addresses[:size]
        self.above: list[Packet] = []  # entries of the path above the device
        tester.jobs.append(self)
        if join:
            for bit in range(size - 1):
                self.config(bit)
                tester.expect(self.pending(bit, range(bit + 1, size)))
            self.config(size - 1)
            tester.expect(*(self.joined(bit) for bit in range(size)))

    # Packets of the children

    def packet(self, code: Opcode, bit: int, body: Packet | bytes = b"", **ceth: Any) -> Packet:
        named = {"jid": self.jid, "key": self.key, "source": bit, "lane": self.lane}
        packet = offload(code, **(named | ceth))
        return packet / (Raw(body) if isinstance(body, bytes) else body) if body else packet

    def send(self, code: Opcode, bit: int, body: Packet | bytes = b"", *, source: str = "", **ceth: Any) -> None:
        """Send a packet of a child; source: another address than the child's."""
        self.tester.send(source or self.addresses[bit], self.packet(code, bit, body, **ceth))

    def token(self, bit: int) -> int:
        """The lower half of the boot id of a child."""
        return 100 + bit

    def config(
        self,
        bit: int,
        *,
        source: str = "",
        full: bool = False,
        ceth: dict | None = None,
        hop: dict | None = None,
        **body: Any,
    ) -> None:
        """CONFIG of a child. ceth, hop and `body` replace fields. full: it is as long as the longest packet."""
        first = {"address": f"::ffff:{self.tester.target.address}", "bit": bit, "mask": (1 << self.size) - 1}
        values: dict[str, Any] = {"boot_id": self.token(bit), "digest_high": 1, "digest_low": 2, "slots": self.slots}
        values |= {"window": self.slots // 2, "chunk": self.chunk, "route": int(Route.TREE)}
        values |= {"hop": [HOP(**(first | (hop or {}))), *self.above], "last_lane": self.last_lane} | body
        self.tester.profile.require_flags(values.get("flags", 0))
        packed = bytes(CONFIG(**values))
        packed = packed.ljust(self.chunk, b"\0") if full else packed
        self.send(Opcode.CONFIG, bit, packed, source=source, **({"token": self.token(bit)} | (ceth or {})))

    def place(self, position: int) -> dict[str, Any]:
        """The fields of a packet about a position."""
        return {"position": position, "seg": position % self.slots, "mid": 3, "sid": position & 0xFFFF}

    def contribute(self, bit: int, position: int, data: np.ndarray | bytes | None = None, **ceth: Any) -> None:
        """CONTRIBUTION of a child that wants the result; SUM of class ALL unless `ceth` says otherwise."""
        values = self.place(position) | {"op": int(Op.SUM), "flags": ALL | WANTS, "node_bitmap": 1 << bit}
        values |= {"rank_bitmap": 1}
        if data is not None:
            values |= {"flags": ALL | WANTS | DATA, "contributions": 1}
        source = ceth.pop("from_", "")
        values = values | type_of(data) | ceth
        if data is not None and values["flags"] & fields.CLASS_MASK << fields.CLASS_SHIFT == ALL:
            self._require(values["op"], values.get("dtype", 0))
        self.send(Opcode.CONTRIBUTION, bit, payload_of(data), source=source, **values)

    def _require(self, op: int, dtype: int) -> None:
        operation = next((each for each in OPERATIONS if each.code == op), None)
        datatype = next((each for each in DATATYPES if each.code == dtype), None)
        if operation and datatype and operation.takes(datatype):
            self.tester.profile.require(operation, datatype)

    def probe(self, bit: int, position: int, token: int = 77, **ceth: Any) -> None:
        self.send(Opcode.PROBE, bit, **(self.place(position) | {"token": token} | ceth))

    # Packets of the device

    def to(self, bit: int, code: Opcode, payload: Any = b"", *, address: str = "", **ceth: Any) -> Expected:
        values = {"jid": self.jid, "key": self.key, "source": bit, "lane": self.lane} | ceth
        return Expected(address or self.addresses[bit], code, values, payload)

    def joined(self, bit: int, *, full: bool = False, **ceth: Any) -> Expected:
        """CONFIG_ACK: active, with N and W as offered. full: as long as the longest packet."""
        body = bytes(CONFIG_ACK(slots=self.slots, window=self.slots // 2)).ljust(self.chunk if full else 0, b"\0")
        return self.to(bit, Opcode.CONFIG_ACK, body, **({"token": self.token(bit)} | ceth))

    def pending(self, bit: int, missing: Any, **ceth: Any) -> Expected:
        """CONFIG_ACK that names the missing children."""
        named = {"status": int(Status.PENDING), "seg": 1, "node_bitmap": sum(1 << each for each in missing)}
        return self.to(bit, Opcode.CONFIG_ACK, ANY, **({"token": self.token(bit)} | named | ceth))

    def refused(self, bit: int, status: str, **ceth: Any) -> Expected:
        values = {"token": self.token(bit), "status": int(Status[status])}
        address = ceth.pop("address", "")
        return self.to(bit, Opcode.CONFIG_ACK, ANY, address=address, **(values | ceth))

    def result(self, bit: int, position: int, data: np.ndarray | bytes | None = None, **ceth: Any) -> Expected:
        """RESULT, with or without data; SUM of class ALL with two ranks' data unless `ceth` says otherwise."""
        values = self.place(position) | {"op": int(Op.SUM), "flags": ALL, "node_bitmap": 1 << bit}
        values |= {"contributions": self.size}
        if data is not None:
            values["flags"] = ALL | DATA
        return self.to(bit, Opcode.RESULT, payload_of(data), **(values | type_of(data) | ceth))

    def aborted(self, bit: int, status: str, *named: int, **ceth: Any) -> Expected:
        """ABORT that names children of the device."""
        about: dict[str, Any] = {
            "seg": 1 if named else ANY,
            "node_bitmap": sum(1 << each for each in named) if named else ANY,
        }
        return self.to(bit, Opcode.ABORT, **({"status": int(Status[status])} | about | ceth))

    # Whole steps

    def complete(self, position: int, data: np.ndarray | None = None) -> None:
        """All children contribute the same data, and get the result."""
        data = f32(1, 2) if data is None else data
        for bit in range(self.size):
            self.contribute(bit, position, data)
        total = (data * self.size).astype(data.dtype)
        self.tester.expect(*(self.result(bit, position, total) for bit in range(self.size)))

    def leave_quietly(self) -> None:
        """All children leave; the answers are ignored."""
        for bit in range(self.size):
            self.send(Opcode.LEAVE, bit)
