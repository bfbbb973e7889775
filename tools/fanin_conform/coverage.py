"""The scripts that check each demand of SPEC.md: `python -m fanin_conform.coverage [DEMAND or SECTION ...]`.

With the path of docs/conformance.md its table is written anew.
"""

import re
import sys
from pathlib import Path

from fanin_conform import scripts
from fanin_conform.script import SCRIPTS
from fanin_wire.clauses import UnknownClause, clauses

assert scripts  # importing fills SCRIPTS
# What the tester checks of each packet that comes.
EVERY_PACKET = ("2-5", "2-11", "2-13", "2-14", "2.2-1", "3-1", "4-2")
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
_BLOCK = re.compile(r"(<!-- conformance -->\n).*?(<!-- end of conformance -->)", re.S)


def checked() -> dict[str, list[str]]:
    """The scripts of each demand, by its number."""
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


def listing(wanted: list[str]) -> str:
    """A line for each demand of `wanted` (numbers of demands or sections; else all): its scripts, or why it has none.

    Raises UnknownClause for an unknown demand or section.
    """
    rows = checked()
    for each in wanted:
        if not any(each in (number, clauses()[number].section) for number in rows):
            raise UnknownClause(each)
    lines = [
        f"{number}: {', '.join(dict.fromkeys(names)) or reason(number)}"
        for number, names in rows.items()
        if not wanted or number in wanted or clauses()[number].section in wanted
    ]
    return "\n".join(lines) + "\n"


def ranges(numbers: list[str]) -> str:
    """Demands in words: consecutive ones of a section are a range."""
    found: list[list[str]] = []
    for number in numbers:
        (section, _, count), last = number.rpartition("-"), found[-1][-1] if found else ""
        if last == f"{section}-{int(count) - 1}":
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in found)


def tables() -> str:
    """What the page says: how many demands a script names, and why the others have none."""
    rows = checked()
    done = sum(bool(names) for names in rows.values())
    lines = [f"Of {len(rows)} demands, {done} are named by a script.", ""]
    lines += ["| demands without a script | why |", "| --- | --- |"]
    without: dict[str, list[str]] = {}
    for number, names in rows.items():
        if not names:
            without.setdefault(reason(number), []).append(number)
    lines += [f"| {ranges(numbers)} | {why} |" for why, numbers in without.items()]
    return "\n".join(lines) + "\n"


def with_tables(text: str) -> str:
    """`text` with its marked block replaced."""
    return _BLOCK.sub(lambda match: match[1] + tables() + match[2], text)


if __name__ == "__main__":
    pages = [Path(argument) for argument in sys.argv[1:] if argument.endswith(".md")]
    for page in pages:
        page.write_text(with_tables(page.read_text()))
    if not pages:
        print(listing(sys.argv[1:]), end="")
