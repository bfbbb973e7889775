"""Which demand of SPEC.md is checked by which script: `python -m fanin_conform.coverage docs/conformance.md`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fanin_conform import scripts
from fanin_conform.script import SCRIPTS
from fanin_wire.clauses import clauses

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
SECTIONS = {
    "6.1": "no script yet: NICs",
    "7.3": "no script yet: a child",
    "7.4": "no script yet: groups",
    "7.5": "no script yet: data ahead",
    "9": "no script yet: rings",
    "9.1": "no script yet: rings",
    "17": "no script: the suite has no target over UD queue pairs",
}
CAN_NOT = {
    "2-1": "can not be seen over a UDP socket",
    "2-2": "can not be seen over a UDP socket, but for the ICRC",
    "2-7": "can not be seen over a UDP socket",
    "3-3": "can not be seen over a UDP socket",
    "3-4": "can not be seen over a UDP socket",
    "3-5": "can not be seen over a UDP socket",
    "3-6": "can not be seen over a UDP socket",
}
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


def table() -> str:
    """The table of the page."""
    rows = checked()
    done = sum(bool(names) for names in rows.values())
    lines = [f"Of {len(rows)} demands, {done} are named by a script.", "", "| demand | scripts |", "| --- | --- |"]
    lines += [f"| {number} | {', '.join(dict.fromkeys(names)) or reason(number)} |" for number, names in rows.items()]
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """`text` with its marked block replaced."""
    return _BLOCK.sub(lambda match: match[1] + table() + match[2], text)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_table(page.read_text()))
