"""The tables of the driver in C, made from the definitions: `python -m fanin_wire.c_tables FILE`.

A test holds the file equal to the definitions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from fanin_wire.collectives import COLLECTIVES, Side
from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS
from fanin_wire.status import STATUSES

HEAD = """/* Generated from fanin_wire by `python -m fanin_wire.c_tables`: do not edit. */
#include "tables.h"
"""


def _side(side: Side) -> str:
    return f"{{{int(side.who)}, {int(side.own)}}}"


def _collectives() -> Iterable[str]:
    for row in COLLECTIVES:
        sides = f"{_side(row.brings)}, {_side(row.wants)}"
        yield f'[{row.code}] = {{"{row.name}", {int(row.contributors)}, {int(row.divided)}, {sides}}},'


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


def c_tables() -> str:
    """The text of the file."""
    return (
        HEAD
        + _table(f"const struct collective_row fanin_collectives[{len(COLLECTIVES)}]", _collectives())
        + _table(f"const struct dtype_row fanin_dtypes[{max(int(entry.code) for entry in DATATYPES) + 1}]", _dtypes())
        + _table(f"const struct status_row fanin_statuses[{max(STATUSES) + 1}]", _statuses())
    )


def main() -> None:
    """Print the text, or write it to a file."""
    if len(sys.argv) == 1:
        print(c_tables(), end="")
    else:
        Path(sys.argv[1]).write_text(c_tables())


if __name__ == "__main__":
    main()
