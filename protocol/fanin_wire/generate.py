"""All that is made from the definitions: `make tables`, or `python -m fanin_wire.generate` in the checkout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fanin_wire import c_tables, lua_tables, tables, verilog_tables

# Partly generated files by their path in the checkout, and what makes the new text of the old one
PARTS: dict[str, Callable[[str], str]] = {
    "protocol/fanin_wire/abi.h": c_tables.with_enumerations,
    "protocol/fanin_wire/SPEC.md": tables.with_tables,
    "protocol/fanin_wire/fanin.lua": lua_tables.with_tables,
    "docs/errors.md": tables.with_tables,
    "docs/nccl-ucc.md": tables.with_datatypes,
}
# Wholly generated files
WHOLE: dict[str, Callable[[], str]] = {
    "host/fanin/core/tables.c": c_tables.tables,
    "host/fanin/core/table_sizes.h": c_tables.table_sizes,
    "host/fanin/core/geometry.h": c_tables.geometry_numbers,
    "host/fanin/nccl_lib/names.h": c_tables.nccl_names,
    "host/fanin/sharp_lib/names.h": c_tables.sharp_names,
    "fpga_cosim/rtl/fanin_constants.vh": verilog_tables.constants,
}


def texts(root: Path) -> dict[Path, str]:
    """What the generated files of the checkout `root` must hold."""
    parts = {root / name: make((root / name).read_text()) for name, make in PARTS.items()}
    return parts | {root / name: make() for name, make in WHOLE.items()}


def main() -> None:
    """Bring the files of the checkout in the working directory up to date, and print those that change."""
    for path, text in texts(Path()).items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"fanin: {path}")


if __name__ == "__main__":
    main()
