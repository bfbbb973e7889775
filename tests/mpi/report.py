"""What FANIN_MPI_REPORT prints, as tests read it."""

from __future__ import annotations

import re

ROW = re.compile(r"^fanin: (\w+) +(\d+) +(\d+) +(\d+) ", re.M)


def offloaded(report: str) -> dict[str, tuple[int, int]]:
    """Of each function the calls that were offloaded, and that were not."""
    return {name: (int(done), int(left)) for name, done, _, left in ROW.findall(report)}
