"""The tables of SPEC.md and of abi.h, and what each field, opcode and flag means."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

import numpy as np

from fanin_wire import abi, fields
from fanin_wire.datatypes import DATATYPES, DataType, Family
from fanin_wire.fields import CLASS_MASK, CLASS_SHIFT, Field, Flag, Opcode
from fanin_wire.operations import OPERATIONS
from fanin_wire.status import STATUSES

# Headers in the order of SPEC.md, each with the meanings of its fields; reserved fields (resv...) need none.
FIELD_MEANINGS: dict[str, dict[str, str]] = {
    "BTH": {
        "opcode": "what the packet is; 0xC0 to 0xCE are the offload's",
        "solicited": "0",
        "migreq": "0",
        "padcount": "bytes of padding behind the payload, 0 to 3",
        "version": "transport version, 0",
        "pkey": "partition key, 0xffff",
        "fecn": "forward congestion mark; not covered by the ICRC",
        "becn": "backward congestion mark; not covered by the ICRC",
        "dqpn": "destination queue pair, 0xfa0c01",
        "ackreq": "0",
        "psn": "running number of the sender's packets; not looked at, positions take its place",
    },
    "CETH": {
        "version": "version of this protocol, 2",
        "op": "operation (table below)",
        "dtype": "type of the elements (table below)",
        "flags": "flags and contributor class (table below)",
        "jid": "job id",
        "key": "the job's random 32-bit key: its incarnation",
        "position": "place in the job's stream of segments, modulo 2^32; ACK: the base of its maps",
        "mid": "number of the message within the job",
        "sid": "number of the segment within the message",
        "seg": "position modulo the lease: the slot, relative to the lease; packets that name somebody: whose children",
        "length": "bytes of payload or body behind the CETH, without padding",
        "status": "a status code; CONTRIBUTION and RESULT: not 0 poisons the position",
        "source": "tree: the child's bit at its parent, in both directions; ring: node index of the sender",
        "segment_index": "number of the packet within its super-packet, which is its IPv4 identification; else 0",
        "lane": "which of the lanes of sender and receiver the packet belongs to (section 6.1)",
        "contributions": "how many ranks' data are summed in the payload",
        "token": "chosen by the sender of a PROBE, QUERY or CONFIG, returned in the answer; else 0",
        "node_bitmap": "set of children or nodes; meaning by opcode",
        "rank_bitmap": "CONTRIBUTION of a tree: the ranks of the sending node; CONTRIBUTION and RESULT of a ring: "
        "nodes that want the data and do not have them; ACK: map of RESULTs; CONFIG_ACK: ranks missing; "
        "ABORT, LEAVE: IPv4 address of the lost device",
    },
    "CONFIG": {
        "boot_id": "random number of the sender's start; another one on a known job means that the sender restarted",
        "digest_high": "first half of the digest over ordered members, tree and parameters",
        "digest_low": "second half",
        "slots": "N: slots offered, a power of two",
        "window": "W: positions in flight offered, at most N / 2",
        "chunk": "bytes of a full segment, a power of two",
        "route": "1 to a device above, 2 to the next node of a ring",
        "hops": "number of HOP entries that follow",
        "last_lane": "the highest lane that the job takes part in: 0 for one lane (section 6.1)",
        "flags": "how the job computes: 1 wide partials, 2 reproducible in one run's path, 4 reproducible in its shape",
    },
    "HOP": {
        "address": "IPv6 address of the device; IPv4 as ::ffff:a.b.c.d",
        "mask": "bits of all the children that the device waits for",
        "bit": "bit of the device below it",
    },
    "CONFIG_ACK": {"slots": "N granted; on NO_RESOURCES the N that would fit", "window": "W granted to the receiver"},
    "WAIT": {
        "oldest_age_us": "microseconds since the most silent of the missing children was heard, "
        "less those for which the sender stood still",
        "oldest_child": "the bit of that child",
        "kind": "whose children the node_bitmap names: 1 the sender's, 2 those of the device above it, and so on",
    },
    "RETH": {"va": "virtual address", "rkey": "remote key", "dlen": "bytes of the whole transfer"},
    "DETH": {"qkey": "queue key", "sqpn": "source queue pair"},
    "ImmDt": {"immdt": "immediate data"},
    "AtomicETH": {
        "va": "virtual address",
        "rkey": "remote key",
        "swap": "swap or add operand",
        "compare": "compare operand",
    },
    "AETH": {"syndrome": "ACK or NAK, credits or reason", "msn": "message sequence number"},
    "AtomicAckETH": {"original": "what stood in memory before the operation"},
    "IETH": {"invalidated_rkey": "remote key that the receiver must not accept any more"},
}
HEADERS = {
    header.name: header
    for header in (
        fields.BTH,
        fields.CETH,
        fields.CONFIG_BODY,
        fields.HOP_BODY,
        fields.CONFIG_ACK_BODY,
        fields.WAIT_BODY,
        fields.RETH,
        fields.DETH,
        fields.IMMDT,
        fields.ATOMICETH,
        fields.AETH,
        fields.ATOMICACKETH,
        fields.IETH,
    )
}

# Opcode: (direction in a tree, what it says, what it demands of the receiver)
OPCODE_MEANINGS: dict[Opcode, tuple[str, str, str]] = {
    Opcode.CONTRIBUTION: ("up", "the sender's share of a position", "RESULT when complete; ring: ACK when stored"),
    Opcode.RESULT: ("down", "the result of a position", "tree: nothing; ring: ACK when stored"),
    Opcode.PROBE: ("up", "what about this position?", "tree: NEED, WAIT or RESULT; ring: ACK; at once"),
    Opcode.NEED: ("down", "your contribution to this position is not here", "the CONTRIBUTION again"),
    Opcode.WAIT: ("down", "yours is here, others are missing", "nothing; probe again later"),
    Opcode.ACK: ("back", "ring: these CONTRIBUTIONs and RESULTs are stored", "nothing"),
    Opcode.CONFIG: ("up", "form this job", "CONFIG_ACK, at once"),
    Opcode.CONFIG_ACK: ("down", "the job is formed, is forming, or is refused", "a device in between: CONFIG_ACK down"),
    Opcode.LEAVE: ("up", "the sender has finished with the job", "LEAVE_ACK, at once"),
    Opcode.LEAVE_ACK: ("down", "the LEAVE is taken", "nothing"),
    Opcode.QUERY: ("up", "what is the state of this job?", "STATUS"),
    Opcode.STATUS: ("down", "the state of the job", "nothing"),
    Opcode.ABORT: ("any", "the job is dead", "stop; complete everything with this status"),
    Opcode.NAK: ("any", "the job is not known here", "stop; complete everything with this status"),
    Opcode.KEEPALIVE: ("any", "the sender lives", "nothing"),
}
FLAG_MEANINGS = {
    "HAS_DATA": "the payload is the segment's data",
    "WANTS_RESULT": "CONTRIBUTION: the sender wants the data of the result",
    "WIDE": "the payload of a segment of small floats is f32",
    "HEARS_GROUP": "CONTRIBUTION of a tree: the sender hears the multicast group of its parent (section 7.4)",
    "AHEAD": "the data go ahead of the result (section 7.5)",
}
_BLOCK = re.compile(r"(<!-- table: (?P<name>[^>]+?) -->\n).*?(<!-- end of table -->)", re.S)


def header_table(name: str) -> str:
    """A header's fields: byte offset, width, name, meaning."""
    meanings = FIELD_MEANINGS[name]
    rows = (
        (*_place(field), field.name, "0" if field.name.startswith("resv") else meanings[field.name])
        for field in HEADERS[name].fields
    )
    return _markdown(("byte", "bits", "field", "meaning"), rows)


def _place(field: Field) -> tuple[str, str]:
    """(byte, bits): the byte where a field begins; if it shares bytes, also the bit there, 7 the most significant."""
    byte, bit = divmod(field.offset, 8)
    whole = bit == 0 and field.bits % 8 == 0
    return str(byte), str(field.bits) if whole else f"{field.bits} (bit {7 - bit} down)"


def opcode_table() -> str:
    rows = ((f"0x{code:02X}", code.name, *OPCODE_MEANINGS[code]) for code in Opcode)
    return _markdown(("code", "opcode", "tree", "says", "demands of the receiver"), rows)


def flag_table() -> str:
    rows = [(f"0x{flag:02X}", flag.name, FLAG_MEANINGS[str(flag.name)]) for flag in Flag]
    mask = CLASS_MASK << CLASS_SHIFT
    rows.append((f"0x{mask:02X}", "class", f"contributor class, shifted left by {CLASS_SHIFT}: 0 NONE, 1 ONE, 2 ALL"))
    rows.append((f"0x{0xFF & ~mask & ~sum(Flag):02X}", "reserved", "0"))
    return _markdown(("bits", "flag", "meaning"), rows)


def operation_table() -> str:
    """Table of the operations, with the families of types that each takes."""
    rows = [(entry.code, entry.name, entry.meaning, ", ".join(entry.families)) for entry in OPERATIONS]
    return _markdown(("code", "op", "computes", "families"), [(0, "none", "", "any"), *rows])


def datatype_table() -> str:
    rows = [
        (entry.code, entry.name, entry.itemsize, entry.family, entry.numpy_name, _nan(entry)) for entry in DATATYPES
    ]
    return _markdown(
        ("code", "dtype", "bytes", "family", "numpy", "NaN"),
        [(0, "none", 1, "", "plain bytes, which are not computed with", ""), *rows],
    )


def _nan(datatype: DataType) -> str:
    """The bits of the canonical NaN of a float."""
    if datatype.family not in (Family.FLOAT, Family.SMALL_FLOAT):
        return ""
    nan = datatype.encode(np.full(1, np.nan, np.float32 if datatype.family == Family.SMALL_FLOAT else datatype.numpy))
    return f"0x{int(nan.view(f'u{nan.itemsize}')[0]):x}"


def status_table() -> str:
    rows = ((entry.code, entry.name, entry.meaning, entry.remedy) for entry in STATUSES.values())
    return _markdown(("code", "status", "meaning", "remedy"), rows)


def constant_table() -> str:
    """The numbers that both sides must agree on."""
    rows = (
        ("UDP destination port", fields.UDP_PORT),
        ("BTH.dqpn", f"0x{fields.COLLECTIVE_QPN:06x}"),
        ("BTH.pkey", f"0x{fields.DEFAULT_PKEY:04x}"),
        ("CETH.version", fields.WIRE_VERSION),
        ("bytes of BTH and CETH", fields.TRANSPORT_SIZE),
        ("bytes of the ICRC", fields.ICRC_SIZE),
        ("children of a device, nodes of a ring, at most", fields.CETH.field("node_bitmap").bits),
        ("HOP entries of a CONFIG, at most", abi.MAX_HOPS),
        ("packets of a super-packet, at most", fields.SUPER_PACKET_SEGMENTS),
        ("bytes of a super-packet from the first BTH on, at most", fields.SUPER_PACKET_BYTES),
    )
    return _markdown(("constant", "value"), rows)


def _markdown(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


TABLES: dict[str, Callable[[], str]] = {
    **{name: functools.partial(header_table, name) for name in HEADERS},
    "opcodes": opcode_table,
    "flags": flag_table,
    "operations": operation_table,
    "data types": datatype_table,
    "status": status_table,
    "constants": constant_table,
}


def with_tables(text: str) -> str:
    """`text` with every marked block replaced by its table; KeyError for an unknown table."""
    return _BLOCK.sub(lambda match: match[1] + TABLES[match["name"]]() + match[3], text)


def with_block(text: str, begin: str, end: str, lines: str) -> str:
    """`text` with `lines` between the lines `begin` and `end`. ValueError unless both occur once."""
    block = re.compile(rf"(?<=^{re.escape(begin)}\n).*?(?=^{re.escape(end)}$)", re.M | re.S)
    replaced, places = block.subn(lambda _: lines, text)
    if places != 1:
        raise ValueError(f"not one place between `{begin}` and `{end}`")
    return replaced


def with_datatypes(text: str) -> str:
    """The page of NCCL and UCC with its rows of types, in this order. ValueError unless it has both."""
    by_library = ([row.name for row in DATATYPES if row.nccl], [row.name for row in DATATYPES if row.sharp])
    rows = iter([f"| datatypes | {', '.join(names)} |" for names in by_library])
    replaced, places = re.subn(r"^\| datatypes \| .*$", lambda found: next(rows, found[0]), text, flags=re.M)
    if places != len(by_library):
        raise ValueError(f"{places} rows of datatypes, not {len(by_library)}")
    return replaced
