"""Outputs of a program are the same in any order of their lines, and may differ in decimal numbers."""

import pytest

from fanin_tools.bench.program_output import NO_DIFFERENCE, Difference, difference


@pytest.mark.parametrize(
    ("one", "other", "found", "shown"),
    [
        ("", "", NO_DIFFERENCE, "same"),
        ("a\nb\n", "b\na\n", NO_DIFFERENCE, "same"),
        ("took  9.98 s\n", "took 10.02 s\n", Difference(1, 0), "same but for decimal numbers in 1 line"),
        ("1.5e-3 2D+00 x", "1.6E-3 2D+00 x", Difference(1, 0), "same but for decimal numbers in 1 line"),
        ("1.d0 .5\n3e7\n", "2.d1 .25\n4e9\n", Difference(2, 0), "same but for decimal numbers in 2 lines"),
        ("sum 4 in 1.5 s", "sum 5 in 1.5 s", Difference(1, 1), "differs in 1 line, also without decimal numbers"),
        ("a\n", "a\na\nb\n", Difference(2, 2), "differs in 2 lines, also without decimal numbers"),
        ("a\nb\n", "", Difference(2, 2), "differs in 2 lines, also without decimal numbers"),
    ],
)
def test_difference(one: str, other: str, found: Difference, shown: str) -> None:
    assert difference(one, other) == found
    assert str(found) == shown


def test_the_greatest_difference_is_that_of_each_number() -> None:
    assert Difference(3, 0).greatest(Difference(1, 1)) == Difference(3, 1)
