"""The constants of the switch in Verilog (see `generate`). Offsets: bits on the wire, most significant first."""

from __future__ import annotations

from collections.abc import Iterable

from fanin_wire import fields
from fanin_wire.abi import ContributorClass, DType, JobFlag, Op, Status
from fanin_wire.fields import CLASS_MASK, CLASS_SHIFT, Flag, Header, Opcode

HEAD = "// Generated from fanin_wire by `make tables`: do not edit.\n"
HEADERS = (fields.BTH, fields.CETH, fields.CONFIG_BODY, fields.HOP_BODY, fields.CONFIG_ACK_BODY, fields.WAIT_BODY)
# Prefix of the names, width in bits, members
ENUMERATIONS = (
    ("OPCODE", 8, Opcode),
    ("FLAG", fields.CETH.field("flags").bits, Flag),
    ("OP", 8, Op),
    ("DTYPE", 8, DType),
    ("STATUS", 8, Status),
    ("CLASS", CLASS_MASK.bit_length(), ContributorClass),
    ("JOB", 8, JobFlag),
)
NUMBERS = {
    "WIRE_VERSION": fields.WIRE_VERSION,
    "UDP_PORT": fields.UDP_PORT,
    "COLLECTIVE_QPN": fields.COLLECTIVE_QPN,
    "DEFAULT_PKEY": fields.DEFAULT_PKEY,
    "ICRC_BYTES": fields.ICRC_SIZE,
    "CLASS_SHIFT": CLASS_SHIFT,
    "CLASS_MASK": CLASS_MASK,
}


def _define(name: str, value: int, bits: int | None = None) -> str:
    return f"`define FANIN_{name} " + (f"{bits}'d{value}" if bits else str(value)) + "\n"


def _enumerations() -> Iterable[str]:
    for prefix, bits, members in ENUMERATIONS:
        yield "\n"
        for member in members:
            yield _define(f"{prefix}_{member.name}", int(member), bits)


def _header(header: Header) -> Iterable[str]:
    prefix = header.name.upper()
    yield "\n"
    yield _define(f"{prefix}_BYTES", header.size)
    for field in header.fields:
        name = f"{prefix}_{field.name.upper()}"
        yield _define(f"{name}_OFFSET", field.offset)
        yield _define(f"{name}_BITS", field.bits)


def constants() -> str:
    numbers = "".join(_define(name, value) for name, value in NUMBERS.items())
    headers = "".join(line for header in HEADERS for line in _header(header))
    guard = "FANIN_CONSTANTS_VH"
    body = numbers + "".join(_enumerations()) + headers
    return f"{HEAD}`ifndef {guard}\n`define {guard}\n\n{body}\n`endif\n"
