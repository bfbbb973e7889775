"""The tables in C (see `generate`): of the driver, of `abi.h`, and of the names in NCCL and SHARP."""

from __future__ import annotations

from collections.abc import Iterable

from fanin_wire import geometry, limits
from fanin_wire.abi import ContributorClass
from fanin_wire.collectives import COLLECTIVES, Side
from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS, Operation
from fanin_wire.status import STATUSES
from fanin_wire.tables import with_block

HEAD = "/* Generated from fanin_wire by `make tables`: do not edit. */\n"
ENUMERATIONS = "/* tables, written by `make tables` */"  # the line of abi.h above them
DTYPES_COMMENT = """
/* With their names in numpy. A pair is the value and the index of MINLOC and MAXLOC, a C struct as MPI has it. */
"""
SIZES = {
    "COLLECTIVE_COUNT": len(COLLECTIVES),
    "DTYPE_COUNT": max(entry.code for entry in DATATYPES) + 1,
    "OP_COUNT": max(entry.code for entry in OPERATIONS) + 1,
    "STATUS_COUNT": max(STATUSES) + 1,
}
NUMBERS = {
    "DEFAULT_CHUNK": limits.MAX_JOB_CHUNK,
    "DEFAULT_SLOTS": limits.DEFAULT_JOB_SLOTS,
    "MIN_SLOTS": limits.MIN_JOB_SLOTS,
    "PART_BYTES": geometry.PART_BYTES,
    "MAX_PARTS": geometry.MAX_PARTS,
}


def _side(side: Side) -> str:
    return f"{{WHO_{side.who.name}, {int(side.own)}}}"


def _collectives() -> Iterable[str]:
    for row in COLLECTIVES:
        facts = f"FANIN_CLASS_{ContributorClass(row.contributors).name}, {int(row.divided)}, {int(row.is_vector)}"
        yield f'[{row.code}] = {{"{row.name}", {facts}, {_side(row.brings)}, {_side(row.wants)}}},'


def _dtypes() -> Iterable[str]:
    for entry in DATATYPES:
        takes, widens = (_mask(entry, method) for method in ("takes", "widens"))
        yield f'[{entry.code}] = {{"{entry.name}", {entry.itemsize}, {entry.widening}, {takes:#x}, {widens:#x}}},'


def _op_names() -> Iterable[str]:
    for entry in OPERATIONS:
        yield f'[{entry.code}] = "{entry.name.lower()}",'


def _mask(datatype: DataType, method: str) -> int:
    """A bit for each operation that takes (widens) the type, by its code."""
    return sum(1 << entry.code for entry in OPERATIONS if getattr(entry, method)(datatype))


def _statuses() -> Iterable[str]:
    for entry in STATUSES.values():
        yield f'[{int(entry.code)}] = {{"{entry.name}",'
        yield f'    "{entry.meaning}",'
        yield f'    "{entry.remedy}"}},'


def _table(declaration: str, rows: Iterable[str]) -> str:
    return f"\n{declaration} = {{\n" + "".join(f"    {row}\n" for row in rows) + "};\n"


def tables() -> str:
    return (
        HEAD
        + '#include "tables.h"\n'
        + _table("const struct collective_row fanin_collectives[COLLECTIVE_COUNT]", _collectives())
        + _table("const struct dtype_row fanin_dtypes[DTYPE_COUNT]", _dtypes())
        + _table("const char *const fanin_op_names[OP_COUNT]", _op_names())
        + _table("const struct status_row fanin_statuses[STATUS_COUNT]", _statuses())
    )


def table_sizes() -> str:
    return _constants("table_sizes", SIZES)


def geometry_numbers() -> str:
    return _constants("geometry", NUMBERS)


def _constants(name: str, values: dict[str, int]) -> str:
    lines = "".join(f"    {constant} = {value},\n" for constant, value in values.items())
    guard = f"FANIN_{name.upper()}_H"
    return f"{HEAD}#ifndef {guard}\n#define {guard}\n\nenum {name} {{\n{lines}}};\n#endif\n"


def enumerations() -> str:
    operations = {row.name: (row.code, "") for row in OPERATIONS}
    datatypes = {row.name.upper(): (row.code, f"/* {row.numpy_name} */") for row in DATATYPES}
    return _enumeration("op", operations) + DTYPES_COMMENT + _enumeration("dtype", datatypes)


def _enumeration(name: str, members: dict[str, tuple[int, str]]) -> str:
    lines = [f"    FANIN_{name.upper()}_{member} = {code}" for member, (code, _) in members.items()]
    ends = [","] * (len(lines) - 1) + [""]
    notes = [note for _, note in members.values()]
    rows = (f"{line + end:<34}{note}".rstrip() + "\n" for line, end, note in zip(lines, ends, notes, strict=True))
    return f"enum fanin_{name} {{\n    FANIN_{name.upper()}_NONE = 0,\n" + "".join(rows) + "};\n"


def with_enumerations(text: str) -> str:
    """The text of abi.h with its codes brought up to date; ValueError if their place is missing."""
    return with_block(text, ENUMERATIONS, "/* end of tables */", enumerations())


def nccl_names() -> str:
    """The text of names.h: codes of operations and types by those of NCCL."""
    operations = {f"NCCL_{row.nccl}": row for row in OPERATIONS if row.nccl}
    return _names("NCCL", operations, {f"NCCL_{row.nccl}": row for row in DATATYPES if row.nccl})


def sharp_names() -> str:
    """The same by those of SHARP."""
    operations = {f"SHARP_OP_{row.sharp}": row for row in OPERATIONS if row.sharp}
    return _names("SHARP", operations, {f"SHARP_DTYPE_{row.sharp}": row for row in DATATYPES if row.sharp})


def _names(library: str, operations: dict[str, Operation], datatypes: dict[str, DataType]) -> str:
    ops = (f"[{name}] = FANIN_OP_{row.name}," for name, row in operations.items())
    dtypes = (f"[{name}] = FANIN_DTYPE_{row.name.upper()}," for name, row in datatypes.items())
    body = _table("static const uint32_t OPS[]", ops) + _table("static const uint32_t DTYPES[]", dtypes)
    guard = f"FANIN_{library}_NAMES_H"
    return f"{HEAD}#ifndef {guard}\n#define {guard}\n{body}#endif\n"
