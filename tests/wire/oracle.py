"""Packets by `struct` and `zlib` alone: a second statement of the formats, without tables, codec and scapy.

The layouts are written out on purpose: a field that moves in `fanin_wire.fields` must fail a test.
"""

import ipaddress
import struct

from fanin_wire.icrc import icrc

# Headers whose fields are whole bytes: struct format and field names; reserved bytes are `x`.
LAYOUTS = {
    "CETH": (
        ">BBBBIIIIIHHBBBBIIQQ",
        "version op dtype flags jid key position mid sid seg length status source segment_index lane "
        "contributions token node_bitmap rank_bitmap",
    ),
    "CONFIG": (">QQQIIIBBH", "boot_id digest_high digest_low slots window chunk route hops flags"),
    "CONFIG_ACK": (">II", "slots window"),
    "WAIT": (">IBBxx", "oldest_age_us oldest_child kind"),
    "RETH": (">QII", "va rkey dlen"),
    "DETH": (">II", "qkey sqpn"),
    "ImmDt": (">I", "immdt"),
    "AtomicETH": (">QIQQ", "va rkey swap compare"),
    "AtomicAckETH": (">Q", "original"),
    "IETH": (">I", "invalidated_rkey"),
}


def _pack_plain(name: str, values: dict) -> bytes:
    layout, names = LAYOUTS[name]
    return struct.pack(layout, *(values.get(field, 0) for field in names.split()))


def _pack_bth(values: dict) -> bytes:
    second = values.get("solicited", 0) << 7 | values.get("migreq", 0) << 6 | values.get("padcount", 0) << 4
    congestion = values.get("fecn", 0) << 31 | values.get("becn", 0) << 30
    third, fourth = congestion | values.get("dqpn", 0), values.get("ackreq", 0) << 31 | values.get("psn", 0)
    return struct.pack(">BBHII", values["opcode"], second, values["pkey"], third, fourth)


def _pack_aeth(values: dict) -> bytes:
    return struct.pack(">I", values.get("syndrome", 0) << 24 | values.get("msn", 0))


def _pack_hop(values: dict) -> bytes:
    address = ipaddress.IPv6Address(values["address"]).packed
    return struct.pack(">16sQBxxxxxxx", address, values["mask"], values["bit"])


def pack_header(name: str, values: dict | list) -> bytes:
    """Bytes of one header; of HOP, a list, all of its entries. Missing fields are 0."""
    if isinstance(values, list):
        return b"".join(pack_header(name, entry) for entry in values)
    special = {"BTH": _pack_bth, "AETH": _pack_aeth, "HOP": _pack_hop}
    return special[name](values) if name in special else _pack_plain(name, values)


def _internet_checksum(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def pack_ip(values: dict, size: int) -> bytes:
    """IPv4 header of a UDP datagram of `size` bytes: no options, DF set, TTL 64."""
    addresses = b"".join(ipaddress.IPv4Address(values[end]).packed for end in ("source", "destination"))
    head = struct.pack(">BBHHHBB", 0x45, values.get("tos", 0), 20 + size, values.get("id", 0), 0x4000, 64, 17)
    return head + _internet_checksum(head + bytes(2) + addresses).to_bytes(2) + addresses


def pack_packet(headers: dict, payload: bytes) -> list[bytes]:
    """The parts of an IP packet, in order: IP, UDP, each further header, payload, padding, ICRC.

    `headers` maps header names to field values, in wire order, beginning with IP (source, destination, id, tos) and UDP
    (sport). The BTH's padcount is given, not computed; the UDP checksum is 0 (none).
    """
    transport = [pack_header(name, values) for name, values in headers.items() if name not in ("IP", "UDP")]
    transport += [payload, bytes(headers["BTH"].get("padcount", 0))]
    size = 8 + sum(map(len, transport)) + 4
    udp = struct.pack(">HHHH", headers["UDP"]["sport"], 4791, size, 0)
    parts = [pack_ip(headers["IP"], size), udp, *transport]
    return [*parts, icrc(b"".join(parts) + bytes(4))]
