"""Whether two runs of a program have printed the same: a hint, since a program may print times, names and pids.

Ranks print in any order, so the order of lines does not count. Lines are compared as they are, and without decimal
numbers, which may be times.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from fanin_tools.quantities import counted

# 1.5, 1., .5, with or without an exponent of C or Fortran; 1e-3
DECIMAL = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eEdD][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+")


@dataclass(frozen=True)
class Difference:
    """Number of lines that two outputs do not share: as they are, and without decimal numbers."""

    lines: int = 0
    without_decimals: int = 0

    def __str__(self) -> str:
        if self.without_decimals:
            return f"differs in {counted(self.without_decimals, 'line')}, also without decimal numbers"
        return f"same but for decimal numbers in {counted(self.lines, 'line')}" if self.lines else "same"

    def greatest(self, other: Difference) -> Difference:
        """The greater of each number."""
        return Difference(max(self.lines, other.lines), max(self.without_decimals, other.without_decimals))


NO_DIFFERENCE = Difference()


def difference(one: str, other: str) -> Difference:
    """Compare two outputs as multisets of lines."""
    first, second = one.splitlines(), other.splitlines()
    return Difference(
        _unshared(Counter(first), Counter(second)),
        _unshared(Counter(map(_without_decimals, first)), Counter(map(_without_decimals, second))),
    )


def _without_decimals(line: str) -> str:
    """Without spaces, too: their number depends on the width of the number behind them."""
    return "".join(DECIMAL.sub("", line).split())


def _unshared(one: Counter[str], other: Counter[str]) -> int:
    return max((one - other).total(), (other - one).total())
