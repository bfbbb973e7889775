"""The tables of the driver in C, made from the definitions: `python -m fanin_wire.c_tables FOLDER`.

It writes `tables.c` and `geometry.h` into the folder. A test holds both equal to the definitions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from fanin_wire import geometry, limits
from fanin_wire.collectives import COLLECTIVES, Side
from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS
from fanin_wire.status import STATUSES

HEAD = "/* Generated from fanin_wire by `python -m fanin_wire.c_tables`: do not edit. */\n"
NUMBERS = {
    "DEFAULT_CHUNK": limits.MAX_JOB_CHUNK,
    "DEFAULT_SLOTS": limits.DEFAULT_JOB_SLOTS,
    "MIN_SLOTS": limits.MIN_JOB_SLOTS,
    "PART_BYTES": geometry.PART_BYTES,
    "MAX_PARTS": geometry.MAX_PARTS,
}


def _side(side: Side) -> str:
    return f"{{{int(side.who)}, {int(side.own)}}}"


def _collectives() -> Iterable[str]:
    for row in COLLECTIVES:
        facts = f"{int(row.contributors)}, {int(row.divided)}, {int(row.is_vector)}"
        yield f'[{row.code}] = {{"{row.name}", {facts}, {_side(row.brings)}, {_side(row.wants)}}},'


def _dtypes() -> Iterable[str]:
    for entry in DATATYPES:
        takes, widens = (_mask(entry, method) for method in ("takes", "widens"))
        yield f"[{int(entry.code)}] = {{{entry.itemsize}, {takes:#x}, {widens:#x}}}, /* {entry.name} */"


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
        + _table(f"const struct collective_row fanin_collectives[{len(COLLECTIVES)}]", _collectives())
        + _table(f"const struct dtype_row fanin_dtypes[{max(int(entry.code) for entry in DATATYPES) + 1}]", _dtypes())
        + _table(f"const struct status_row fanin_statuses[{max(STATUSES) + 1}]", _statuses())
    )


def numbers() -> str:
    """The text of geometry.h."""
    lines = "".join(f"    {name} = {value},\n" for name, value in NUMBERS.items())
    guard = "FANIN_GEOMETRY_H"
    return f"{HEAD}#ifndef {guard}\n#define {guard}\n\nenum geometry {{\n{lines}}};\n#endif\n"


FILES = {"tables.c": tables, "geometry.h": numbers}


def main() -> None:
    """Write the files into a folder, or print them."""
    for name, text in FILES.items():
        if len(sys.argv) == 1:
            print(text(), end="")
        else:
            Path(sys.argv[1], name).write_text(text())


if __name__ == "__main__":
    main()
