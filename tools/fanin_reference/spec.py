"""The tables of SPEC.md, read from its text: all that this switch knows of Fanin."""

import re
from importlib import resources
from typing import NamedTuple

TEXT = resources.files("fanin_wire").joinpath("SPEC.md").read_text(encoding="utf-8")


def rows(name: str) -> list[list[str]]:
    """The cells of a table between markers, without its heading."""
    found = re.search(rf"<!-- table: {re.escape(name)} -->\n(.*?)<!-- end of table -->", TEXT, re.S)
    assert found, f"SPEC.md has no table {name}"
    lines = found[1].strip().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


class Header(NamedTuple):
    """A header: its fields follow each other without gaps, most significant bit first ([2-9], [2-10])."""

    size: int
    fields: dict[str, tuple[int, int]]  # name: bits to the right of it, bits of its own

    def unpack(self, data: bytes) -> dict[str, int]:
        """The fields at the start of `data`. Missing bytes count as zeros."""
        number = int.from_bytes(data[: self.size].ljust(self.size, b"\0"), "big")
        return {name: number >> right & (1 << bits) - 1 for name, (right, bits) in self.fields.items()}

    def pack(self, values: dict[str, int]) -> bytes:
        """The header with these fields, the others 0."""
        return sum(value << self.fields[name][0] for name, value in values.items()).to_bytes(self.size, "big")


def header(name: str) -> Header:
    """The header that a table describes."""
    widths = [(field, int(bits.split()[0])) for _, bits, field, _ in rows(name)]
    right = total = sum(bits for _, bits in widths)
    fields = {}
    for field, bits in widths:
        right -= bits
        fields[field] = (right, bits)
    return Header(total // 8, fields)


BTH, CETH, CONFIG, HOP, CONFIG_ACK, WAIT = map(header, ("BTH", "CETH", "CONFIG", "HOP", "CONFIG_ACK", "WAIT"))
CONSTANTS = {name: int(value, 0) for name, value in rows("constants")}
OPCODES = {row[1]: int(row[0], 0) for row in rows("opcodes")}
STATUS = {row[1]: int(row[0]) for row in rows("status")}
FLAGS = {row[1]: int(row[0], 0) for row in rows("flags")}
OPERATIONS = {int(code): (name, families.split(", ")) for code, name, _, families in rows("operations")}
TYPES = {int(code): (name, int(size), family) for code, name, size, family, *_ in rows("data types")}
NONE, ONE, ALL = range(3)  # contributor classes: the row "class" of the table of flags
CLASS_SHIFT = 5
