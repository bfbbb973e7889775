"""docs/orderings.md lists each access to a word that threads or processes share, and no other."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.docs.orderings import ROOT, Use, plain_uses_of_c, uses_of_c, uses_of_python

PAGE = ROOT / "docs/orderings.md"
ENTRY = re.compile(r"`([\w/.]+)` ((?:\w+, )*\w+): (\w+(?:, \w+)*)")
HEAD = "| word | written | read | protects |"
# No accesses: layouts, and where their members are named.
LAYOUTS = {"loop/lane_record.py module", "native/tap.py module", "verbs/wake.py module"}

pytestmark = pytest.mark.unit


class Row(NamedTuple):
    """A row of a table: words, and place and order of each access."""

    words: frozenset[str]
    accesses: frozenset[tuple[str, str]]


def rows() -> Iterator[Row]:
    for table in PAGE.read_text().split(HEAD)[1:]:
        for line in table.split("\n\n")[0].splitlines()[2:]:
            word, written, read, _ = (cell.strip() for cell in line.strip("|").split(" | "))
            accesses = frozenset(
                (f"{file} {function}", order)
                for cell in (written, read)
                for file, functions, orders in ENTRY.findall(cell)
                for function in functions.split(", ")
                for order in orders.split(", ")
            )
            yield Row(frozenset(re.findall(r"`(\w+)`", word)), accesses)


def uses() -> set[Use]:
    found = uses_of_c() | plain_uses_of_c() | uses_of_python()
    return {use for use in found if use.place not in LAYOUTS}


def is_in(use: Use, row: Row) -> bool:
    return (use.place, use.order) in row.accesses and (use.word in row.words or use.order == "fence")


def test_every_access_is_listed() -> None:
    table = list(rows())
    assert len(table) > 40
    assert {use for use in uses() if not any(is_in(use, row) for row in table)} == set()


def test_every_access_that_is_listed_exists() -> None:
    found = uses()
    assert len(found) > 150
    for row in rows():
        for place, order in row.accesses:
            assert any(is_in(use, row) for use in found if (use.place, use.order) == (place, order)), (place, order)


def test_every_row_says_who_writes_and_who_reads() -> None:
    for row in rows():
        assert row.accesses, row
