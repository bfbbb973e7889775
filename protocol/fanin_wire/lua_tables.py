"""The tables of the Wireshark dissector (see `generate`): the lines of fanin.lua between `-- tables` and `-- end of
tables`. Record 0064 says why it is in Lua, and what it leaves to Wireshark's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from fanin_wire import fields
from fanin_wire.abi import ContributorClass, DType, JobFlag, Op, Route, Status
from fanin_wire.datatypes import DATATYPES, Family
from fanin_wire.fields import CLASS_MASK, CLASS_SHIFT, Field, Flag, Header, Opcode
from fanin_wire.operations import OPERATIONS
from fanin_wire.resolution import QUEUE_KEY
from fanin_wire.rocev2 import CODES
from fanin_wire.tables import FIELD_MEANINGS, FLAG_MEANINGS, with_block

# Headers of offload packets in the order of SPEC.md; Wireshark knows those of ordinary traffic.
HEADERS = (fields.BTH, fields.CETH, fields.CONFIG_BODY, fields.HOP_BODY, fields.CONFIG_ACK_BODY, fields.WAIT_BODY)
# Fields whose codes have names
ENUMERATIONS = {"opcode": Opcode, "op": Op, "dtype": DType, "status": Status, "route": Route}
NUMBERS = {  # shown in decimal, with their units
    "padcount": "byte",
    "length": "byte",
    "chunk": "byte",
    "oldest_age_us": "microsecond",
    "slots": "slot",
    "window": "position",
    "contributions": "rank",
    "hops": "hop",
}
HEXADECIMAL = {"opcode", "pkey", "dqpn", "flags", "key", "token", "boot_id", "digest_high", "digest_low"}
BITMAPS = {"node_bitmap", "rank_bitmap", "mask"}
CONFIG_FLAGS = (JobFlag.WIDE, JobFlag.REPRODUCIBLE_RUN, JobFlag.REPRODUCIBLE_SHAPE)  # those on the wire

_REFERENCE = re.compile(r" \((table below|section [\d.]+)\)")  # meaningful in SPEC.md only


def _text(value: str) -> str:
    """A string of Lua: JSON's, if it is printable ASCII."""
    if not (value.isascii() and value.isprintable()):
        raise ValueError(f"not plain text: {value!r}")
    return json.dumps(_REFERENCE.sub("", value))


def _names(codes: Iterable[tuple[int, str]]) -> str:
    return "{ " + ", ".join(f"[{code}] = {_text(name)}" for code, name in codes) + " }"


def _form(field: Field) -> str:
    """How a field's value is shown."""
    if field.name in ENUMERATIONS:
        return "code"
    if field.bits == 128:
        return "address"
    for form, names in (("hexadecimal", HEXADECIMAL), ("bitmap", BITMAPS)):
        if field.name in names:
            return form
    return "number"


def _field(field: Field, meanings: Mapping[str, str]) -> str:
    unit = f", unit = {_text(NUMBERS[field.name])}" if field.name in NUMBERS else ""
    place = f"bits = {field.bits}, offset = {field.offset}"
    text = _text(meanings.get(field.name, "0"))
    return f"{{ name = {_text(field.name)}, {place}, form = {_text(_form(field))}{unit},\n      text = {text} }}"


def _header(header: Header) -> str:
    rows = "".join(f"    {_field(field, FIELD_MEANINGS[header.name])},\n" for field in header.fields)
    return f"  {header.name} = {{\n    size = {header.size},\n{rows}  }},\n"


def _elements() -> Iterable[str]:
    for entry in DATATYPES:
        kinds = {} if entry.family == Family.SMALL_FLOAT else {"f": "float", "i": "int", "u": "uint", "b": "uint"}
        kind = kinds.get(entry.numpy.kind, "other")
        yield f'  [{entry.code}] = {{ size = {entry.itemsize}, kind = "{kind}" }},\n'


def _takes() -> Iterable[str]:
    for operation in OPERATIONS:
        codes = (f"[{entry.code}] = true" for entry in DATATYPES if operation.takes(entry))
        yield f"  [{operation.code}] = {{ {', '.join(codes)} }},\n"


def _flags() -> Iterable[str]:
    for flag in Flag:
        name = str(flag.name)
        yield f'  {{ name = "{name.lower()}", mask = {int(flag):#x}, text = {_text(FLAG_MEANINGS[name])} }},\n'


def _config_flags() -> Iterable[str]:
    for flag in CONFIG_FLAGS:
        yield f'  {{ name = "{flag.name.lower()}", mask = {int(flag):#x}, text = "how the job computes" }},\n'


def _constants() -> str:
    values = {
        "WIRE_VERSION": fields.WIRE_VERSION,
        "UDP_PORT": fields.UDP_PORT,
        "FIRST_SOURCE_PORT": fields.FIRST_SOURCE_PORT,
        "COLLECTIVE_QPN": fields.COLLECTIVE_QPN,
        "FIRST_OPCODE": fields.FIRST_OFFLOAD_OPCODE,
        "ICRC_SIZE": fields.ICRC_SIZE,
        "UD_SEND_ONLY": CODES["UD_SEND_ONLY"],
        "DETH_SIZE": fields.DETH.size,
        "QUEUE_KEY": QUEUE_KEY,
        "MAX_SOURCE": fields.CETH.field("node_bitmap").bits - 1,
        "CLASS_MASK": CLASS_MASK << CLASS_SHIFT,
        "CLASS_UNIT": 1 << CLASS_SHIFT,
    }
    return "".join(f"local {name} = {value}\n" for name, value in values.items())


def tables() -> str:
    """The lines between the markers of fanin.lua."""
    names = {name: ((int(code), code.name) for code in codes) for name, codes in ENUMERATIONS.items()}
    names["class"] = ((int(code), code.name) for code in ContributorClass)
    named = "".join(f"  {name} = {_names(codes)},\n" for name, codes in names.items())
    blocks = {
        "NAMES": named,
        "HEADERS": "".join(map(_header, HEADERS)),
        "FLAGS": "".join(_flags()),
        "CONFIG_FLAGS": "".join(_config_flags()),
        "ELEMENTS": "".join(_elements()),
        "TAKES": "".join(_takes()),
    }
    return _constants() + "".join(f"local {name} = {{\n{rows}}}\n" for name, rows in blocks.items())


def with_tables(text: str) -> str:
    """`text` with its tables brought up to date; ValueError if their place is missing."""
    return with_block(text, "-- tables", "-- end of tables", tables())
