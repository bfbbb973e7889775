"""The tables of SPEC.md (see `generate`): the blocks between `<!-- table: NAME -->` and `<!-- end of table -->`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

import numpy as np

from fanin_wire import abi, fields
from fanin_wire.datatypes import DATATYPES, DataType, Family
from fanin_wire.fields import CLASS_MASK, CLASS_SHIFT, Field, Flag, Opcode
from fanin_wire.meanings import FIELD_MEANINGS, FLAG_MEANINGS, HEADERS, OPCODE_MEANINGS
from fanin_wire.operations import OPERATIONS
from fanin_wire.status import STATUSES

_BLOCK = re.compile(r"(<!-- table: (?P<name>[^>]+?) -->\n).*?(<!-- end of table -->)", re.S)


def _markdown(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def _place(field: Field) -> tuple[str, str]:
    """(byte, bits): the byte where a field begins; if it shares bytes, also the bit there, 7 the most significant."""
    byte, bit = divmod(field.offset, 8)
    whole = bit == 0 and field.bits % 8 == 0
    return str(byte), str(field.bits) if whole else f"{field.bits} (bit {7 - bit} down)"


def header_table(name: str) -> str:
    """A header's fields: byte offset, width, name, meaning."""
    meanings = FIELD_MEANINGS[name]
    rows = (
        (*_place(field), field.name, "0" if field.name.startswith("resv") else meanings[field.name])
        for field in HEADERS[name].fields
    )
    return _markdown(("byte", "bits", "field", "meaning"), rows)


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


def with_datatypes(text: str) -> str:
    """The page of NCCL and UCC with its rows of types, in this order. ValueError unless it has both."""
    by_library = ([row.name for row in DATATYPES if row.nccl], [row.name for row in DATATYPES if row.sharp])
    rows = iter([f"| datatypes | {', '.join(names)} |" for names in by_library])
    replaced, places = re.subn(r"^\| datatypes \| .*$", lambda found: next(rows, found[0]), text, flags=re.M)
    if places != len(by_library):
        raise ValueError(f"{places} rows of datatypes, not {len(by_library)}")
    return replaced


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
