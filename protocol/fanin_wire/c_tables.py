"""The tables of the driver in C, made from the definitions: `python -m fanin_wire.c_tables FOLDER`.

It writes `tables.c`, `table_sizes.h` and `geometry.h` into the folder. A test holds them equal to the definitions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from fanin_wire import geometry, limits
from fanin_wire.abi import ContributorClass
from fanin_wire.collectives import COLLECTIVES, Side
from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS
from fanin_wire.status import STATUSES

HEAD = "/* Generated from fanin_wire by `python -m fanin_wire.c_tables`: do not edit. */\n"
SIZES = {
    "COLLECTIVE_COUNT": len(COLLECTIVES),
    "DTYPE_COUNT": max(int(entry.code) for entry in DATATYPES) + 1,
    "OP_COUNT": max(int(entry.code) for entry in OPERATIONS) + 1,
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
        yield f'[{int(entry.code)}] = {{"{entry.name}", {entry.itemsize}, {takes:#x}, {widens:#x}}},'


def _op_names() -> Iterable[str]:
    for entry in OPERATIONS:
        yield f'[{int(entry.code)}] = "{entry.name.lower()}",'


def _mask(datatype: DataType, method: str) -> int:
    """One bit for each operation that takes (widens) the type, by its code."""
    return sum(1 << int(entry.code) for entry in OPERATIONS if getattr(entry, method)(datatype))


def _statuses() -> Iterable[str]:
    for entry in STATUSES.values():
        yield f'[{int(entry.code)}] = {{"{entry.name}",'
        yield f'    "{entry.meaning}",'
        yield f'    "{entry.remedy}"}},'


def _table(declaration: str, rows: Iterable[str]) -> str:
    return f"\n{declaration} = {{\n" + "".join(f"    {row}\n" for row in rows) + "};\n"


def tables() -> str:
    """The text of tables.c."""
    return (
        HEAD
        + '#include "tables.h"\n'
        + _table("const struct collective_row fanin_collectives[COLLECTIVE_COUNT]", _collectives())
        + _table("const struct dtype_row fanin_dtypes[DTYPE_COUNT]", _dtypes())
        + _table("const char *const fanin_op_names[OP_COUNT]", _op_names())
        + _table("const struct status_row fanin_statuses[STATUS_COUNT]", _statuses())
    )


def constants(name: str, values: dict[str, int]) -> str:
    """The text of a header that has only an enum."""
    lines = "".join(f"    {constant} = {value},\n" for constant, value in values.items())
    guard = f"FANIN_{name.upper()}_H"
    return f"{HEAD}#ifndef {guard}\n#define {guard}\n\nenum {name} {{\n{lines}}};\n#endif\n"


FILES: dict[str, Callable[[], str]] = {
    "tables.c": tables,
    "table_sizes.h": partial(constants, "table_sizes", SIZES),
    "geometry.h": partial(constants, "geometry", NUMBERS),
}


def main() -> None:
    """Write the files into a folder, or print them."""
    for name, text in FILES.items():
        if len(sys.argv) == 1:
            print(text(), end="")
        else:
            Path(sys.argv[1], name).write_text(text())


if __name__ == "__main__":
    main()
