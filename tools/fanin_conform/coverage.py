"""Which demand of SPEC.md is checked by which script: `python -m fanin_conform.coverage` prints it.

With the path of docs/conformance.md its table is written anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fanin_conform import scripts
from fanin_conform.script import SCRIPTS
from fanin_wire.clauses import clauses
from fanin_wire.operations import OPERATIONS

assert scripts  # importing them has filled SCRIPTS
EVERY_PACKET = (
    "2-5",
    "2-11",
    "2-13",
    "2-14",
    "2.2-1",
    "3-1",
    "4-2",
)  # what the tester checks of each packet that comes
NO_SCRIPT = "no script yet"
HOST = "no script: hosts keep it before a request is posted; packets do not show it"
INSIDE = "no script: an estimate inside the device, of which packets show the effect only"
SOCKET = "can not be seen over a UDP socket"
WORDS = "no script: it explains others and demands nothing that a packet shows"
SECTIONS = {
    "13": SOCKET + ": a receiver sees packets, not super-packets",
    "17": "no script: the suite has no target over UD queue pairs",
}
REASONS = {
    "no script yet: the suite plays no network that loses only what goes to a group": "7.4-15 7.4-16",
    HOST: "6-9 6-16 6-18 10.1-23",
    INSIDE: "8-29",
    SOCKET: "2-1 2-2 2-3 2-7 3-3 3-4 3-5 3-6 3-8 3-9",
    WORDS: "2-6 2-9 2-10 2-15 5-1 5-8 5-20 6-27 6-28 6-29 6-34 7.5-13 7.5-28 8-25 10.8-4 10.8-5 11-14 11-17",
    "can not be demanded: a device need not do it": "7.5-5 8-13 10.8-6",
    "no script: the tester does not know what a receive buffer holds": "10.2-4",
    "no script yet: the parent of the suite answers; tests/engine/test_path_mtu.py has one that does not": "8-31",
}
CAN_NOT = {number: why for why, numbers in REASONS.items() for number in numbers.split()}
OPERATION_NAMES = {row.name.lower() for row in OPERATIONS}
SEVERAL = 4  # scripts of operations in one module that the page writes as one
_BLOCK = re.compile(r"(<!-- conformance -->\n).*?(<!-- end of conformance -->)", re.S)


def checked() -> dict[str, list[str]]:
    """The scripts that name each demand, by its number."""
    found: dict[str, list[str]] = {number: [] for number in clauses()}
    for number in EVERY_PACKET:
        found[number].append("every packet")
    for script in SCRIPTS.values():
        for number in script.clauses:
            found[number].append(script.name)
    return found


def reason(number: str) -> str:
    """Why no script names a demand."""
    return CAN_NOT.get(number) or SECTIONS.get(clauses()[number].section) or NO_SCRIPT


def cell(number: str, names: list[str]) -> str:
    """The scripts that name a demand, those of several operations as one; or why there are none."""
    short = {name: _short(name, names) for name in names}
    return ", ".join(dict.fromkeys(short.values())) or reason(number)


def _short(name: str, names: list[str]) -> str:
    module, _, script = name.partition("/")
    of_operations = {f"{module}/{operation}" for operation in OPERATION_NAMES}
    several = script in OPERATION_NAMES and len(of_operations.intersection(names)) >= SEVERAL
    return f"{module}/OPERATION" if several else name


def follows(number: str, last: str) -> bool:
    """Whether a demand is the next one of the same section."""
    (section, _, count), (other, _, before) = number.rpartition("-"), last.rpartition("-")
    return section == other and int(count) == int(before) + 1


def table() -> str:
    """The table of the page. Demands that follow each other and have the same scripts share a row."""
    rows = checked()
    done = sum(bool(names) for names in rows.values())
    shared: list[tuple[str, str, str]] = []  # the first demand, the last one, the cell
    for number, names in rows.items():
        text = cell(number, names)
        if shared and shared[-1][2] == text and follows(number, shared[-1][1]):
            shared[-1] = (shared[-1][0], number, text)
        else:
            shared.append((number, number, text))
    lines = [f"Of {len(rows)} demands, {done} are named by a script.", "", "| demand | scripts |", "| --- | --- |"]
    lines += [f"| {first if first == last else f'{first} to {last}'} | {text} |" for first, last, text in shared]
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """`text` with its marked block replaced."""
    return _BLOCK.sub(lambda match: match[1] + table() + match[2], text)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(with_table(page.read_text()))
    if not sys.argv[1:]:
        print(table(), end="")
