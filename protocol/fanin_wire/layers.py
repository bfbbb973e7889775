"""scapy layers of RoCEv2 and of the offload, on top of scapy.contrib.roce: the tool and the check, never the data path.

Build a packet as `IP(...)/UDP(sport=..., dport=4791)/BTH(opcode=...)/...`; padding, PadCnt, CETH length and ICRC are
right unless given. Of a dissected packet BTH has padding and ICRC in the fields `pad` and `icrc`. Importing scapy takes
a second, so no other module of this package imports this one.
"""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.contrib import roce
from scapy.contrib.roce import CNP_OPCODE, CNPPadding, cnp
from scapy.fields import (
    BitEnumField,
    BitField,
    BitFieldLenField,
    FCSField,
    Field,
    FlagsField,
    IP6Field,
    PacketListField,
    StrLenField,
    TrailerField,
    XBitField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_bottom_up, bind_layers, bind_top_down, split_bottom_up

from fanin_wire import fields
from fanin_wire.abi import DType, Op, Route, Status
from fanin_wire.fields import COLLECTIVE_QPN, DEFAULT_PKEY, ICRC_SIZE, UDP_PORT, WIRE_VERSION, Opcode
from fanin_wire.rocev2 import CODES, OPCODES

__all__ = ["AETH", "BTH", "CETH", "CNP_OPCODE", "CONFIG", "CONFIG_ACK", "DETH", "HOP", "IETH", "RETH", "WAIT"]
__all__ += ["AtomicAckETH", "AtomicETH", "CNPPadding", "ImmDt", "cnp", "offload", "opcode"]

_ENUMERATIONS: dict[str, dict[int, str]] = {
    "op": {code: code.name for code in Op},
    "dtype": {code: code.name for code in DType},
    "status": {code: code.name for code in Status},
    "route": {code: code.name for code in Route},
}
# Bits 5 and 6 are the contributor class: NONE 0, ONE 1, ALL 2.
_CLASS_NAMES = {1 << fields.CLASS_SHIFT: "CLASS_ONE", 2 << fields.CLASS_SHIFT: "CLASS_ALL"}
_FLAG_BITS = {int(flag): str(flag.name) for flag in fields.Flag} | _CLASS_NAMES
_FLAG_NAMES = [_FLAG_BITS.get(1 << bit, f"resv{bit}") for bit in range(8)]
_HEXADECIMAL = {"key", "token", "boot_id", "digest_high", "digest_low", "node_bitmap", "rank_bitmap", "mask"}
_HEXADECIMAL |= {"va", "rkey", "qkey", "immdt", "pkey", "swap", "compare", "original", "invalidated_rkey"}

_OPCODE_NAMES = {**roce.BTH.fields_desc[0].i2s, **{row.code: row.name for row in OPCODES.values()}}
_OPCODE_NAMES |= {int(code): code.name for code in Opcode}


def _field(row: fields.Field, default: int | None) -> Field:
    if row.name in _ENUMERATIONS:
        return BitEnumField(row.name, default, row.bits, _ENUMERATIONS[row.name])
    if row.name == "flags":
        return FlagsField(row.name, default, row.bits, _FLAG_NAMES)
    return (XBitField if row.name in _HEXADECIMAL else BitField)(row.name, default, row.bits)


def _fields_desc(header: fields.Header, *whole: Field, **defaults: int | None) -> list[Field]:
    """The fields of a table, 0 or as given; a `whole` field replaces the row of its name, or follows all."""
    given = {field.name: field for field in whole}
    rows = [given.pop(row.name, None) or _field(row, defaults.get(row.name, 0)) for row in header.fields]
    return [*rows, *given.values()]


def opcode(transport: str, operation: str) -> int:
    """BTH opcode, as `opcode("UD", "SEND_ONLY")`."""
    return CODES[f"{transport}_{operation}"]


class BTH(roce.BTH):
    """scapy's BTH, with padding: PadCnt is the bytes that bring the payload to a multiple of 4."""

    name = "BTH"
    fields_desc = _fields_desc(
        fields.BTH,
        BitEnumField("opcode", 0, 8, _OPCODE_NAMES),
        FCSField("icrc", None, fmt="!I"),
        # Behind the ICRC in this list, because trailers are taken from the packet's end inward
        TrailerField(StrLenField("pad", b"", length_from=lambda packet: packet.padcount)),
        padcount=None,
        pkey=DEFAULT_PKEY,
    )

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        if self.padcount is None:
            count = -len(pay) % 4
            p = p[:1] + bytes([p[1] | count << 4]) + p[2:]
            pay = pay[:-ICRC_SIZE] + bytes(count) + pay[-ICRC_SIZE:]
        return super().post_build(p, pay)

    def compute_icrc(self, p: bytes) -> bytes:
        """scapy's, over a plain BTH of the finished bytes: it would not see the padding otherwise."""
        if self.underlayer is None or self.underlayer.underlayer is None:
            return super().compute_icrc(p)
        ip = self.underlayer.underlayer.copy()
        ip[UDP].remove_payload()
        return (ip / roce.BTH(p))[roce.BTH].compute_icrc(p)


class Extended(Packet):
    """An extended transport header; the opcode of the BTH says what follows (HEADERS)."""

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        below, depth = self.underlayer, 1
        while isinstance(below, Extended):
            below, depth = below.underlayer, depth + 1
        following = HEADERS.get(below.opcode, ())[depth:] if isinstance(below, BTH) else ()
        return following[0] if following else conf.raw_layer


class RETH(Extended):
    name = "RETH"
    fields_desc = _fields_desc(fields.RETH)


class DETH(Extended):
    name = "DETH"
    fields_desc = _fields_desc(fields.DETH)


class ImmDt(Extended):
    name = "ImmDt"
    fields_desc = _fields_desc(fields.IMMDT)


class AtomicETH(Extended):
    name = "AtomicETH"
    fields_desc = _fields_desc(fields.ATOMICETH)


class AETH(Extended):
    """Replaces scapy's AETH, behind which nothing can stand."""

    name = "AETH"
    fields_desc = _fields_desc(fields.AETH)


class AtomicAckETH(Extended):
    name = "AtomicAckETH"
    fields_desc = _fields_desc(fields.ATOMICACKETH)


class IETH(Extended):
    name = "IETH"
    fields_desc = _fields_desc(fields.IETH)


class CETH(Extended):
    """`length` is the payload's, unless given."""

    name = "CETH"
    fields_desc = _fields_desc(fields.CETH, version=WIRE_VERSION, length=None)

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        if self.length is None:
            at = fields.CETH.byte_offset("length")
            p = p[:at] + len(pay).to_bytes(2) + p[at + 2 :]
        return p + pay


class HOP(Packet):
    """One level above the sender of a CONFIG; IPv6, or IPv4 as ::ffff:192.0.2.1."""

    name = "HOP"
    fields_desc = _fields_desc(fields.HOP_BODY, IP6Field("address", "::"))

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class CONFIG(Packet):
    name = "CONFIG"
    fields_desc = _fields_desc(
        fields.CONFIG_BODY,
        BitFieldLenField("hops", None, 8, count_of="hop"),
        PacketListField("hop", [], HOP, count_from=lambda packet: packet.hops),
    )


class CONFIG_ACK(Packet):
    name = "CONFIG_ACK"
    fields_desc = _fields_desc(fields.CONFIG_ACK_BODY)


class WAIT(Packet):
    name = "WAIT"
    fields_desc = _fields_desc(fields.WAIT_BODY)


def offload(code: Opcode, **ceth: Any) -> Packet:
    """BTH and CETH, for `IP()/UDP()`; fields of the CETH by name."""
    return BTH(opcode=int(code), dqpn=COLLECTIVE_QPN) / CETH(**ceth)


_CLASSES: dict[str, type[Packet]] = {
    layer.__name__: layer for layer in (RETH, DETH, ImmDt, AtomicETH, AETH, AtomicAckETH, IETH)
}
# Headers between BTH and payload, by opcode (ordinary traffic: `rocev2`; the offload: SPEC.md)
HEADERS: dict[int, tuple[type[Packet], ...]] = {
    **{row.code: tuple(_CLASSES[header.name] for header in row.headers) for row in OPCODES.values() if row.headers},
    **{int(code): (CETH,) for code in Opcode},
    int(Opcode.CONFIG): (CETH, CONFIG),
    int(Opcode.CONFIG_ACK): (CETH, CONFIG_ACK),
    int(Opcode.WAIT): (CETH, WAIT),
}

split_bottom_up(UDP, roce.BTH, dport=UDP_PORT)  # the first binding found would win
bind_layers(UDP, BTH, dport=UDP_PORT)
split_bottom_up(BTH, roce.AETH, opcode=CODES["RC_ACKNOWLEDGE"])  # likewise, inherited from scapy's BTH
for _opcode, _headers in HEADERS.items():
    bind_bottom_up(BTH, _headers[0], opcode=_opcode)
bind_top_down(BTH, CETH, opcode=int(Opcode.CONTRIBUTION), dqpn=COLLECTIVE_QPN)
bind_top_down(BTH, DETH, opcode=opcode("UD", "SEND_ONLY"))
bind_top_down(BTH, RETH, opcode=opcode("RC", "RDMA_WRITE_ONLY"))
bind_top_down(BTH, AtomicETH, opcode=opcode("RC", "FETCH_ADD"))
