"""The demands of SPEC.md by number: clause("5-22").text == "A discarded packet MUST NOT change anything."."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

SPECIFICATION = Path(__file__).with_name("SPEC.md")
NUMBER = r"\d+(?:\.\d+)?-\d+"

_MARK = re.compile(rf"\[({NUMBER})\] ")
_GENERATED = re.compile(r"<!-- table: .*?<!-- end of table -->|```.*?```", re.S)
_BLOCK_END = re.compile(r"\n\s*\n|\n(?=\s*- |\s*\d+\. |\||#)")


class Clause(NamedTuple):
    """number: "5-22", demand 22 of section 5. title: of that section."""

    number: str
    title: str
    text: str

    @property
    def section(self) -> str:
        """The section's number, as "5" or "10.1"."""
        return self.number.partition("-")[0]


class UnknownClause(KeyError):
    """A number that no demand of SPEC.md has."""


@functools.cache
def clauses() -> dict[str, Clause]:
    """All demands by number, in the order of the text. ValueError: a number is repeated or in a wrong section."""
    found: dict[str, Clause] = {}
    text = _GENERATED.sub("", SPECIFICATION.read_text())
    for part in re.split(r"^#+ (?=\d)", text, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        section, _, title = heading.partition(" ")
        for number, said in _marked(body):
            if number in found or number.partition("-")[0] != section:
                raise ValueError(f"[{number}] in section {section} is repeated or misplaced")
            found[number] = Clause(number, title, said)
    return found


def _marked(body: str) -> list[tuple[str, str]]:
    """(number, text) of each demand; the text ends at the next number or the end of its block."""
    pairs = []
    for block in _BLOCK_END.split(body):
        parts = _MARK.split(block)
        for number, said in zip(parts[1::2], parts[2::2], strict=True):
            pairs.append((number, " ".join(said.split()).rstrip("| ")))
    return pairs


def clause(number: str) -> Clause:
    """The demand with a number; UnknownClause if none has it."""
    try:
        return clauses()[number]
    except KeyError:
        raise UnknownClause(f"no demand of SPEC.md has the number {number}") from None
