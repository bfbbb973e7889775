"""Reads what FANIN_MPI_REPORT prints."""

import re

# Not possible on devices, or not better there.
NOT_ELIGIBLE = ("ONE_RANK", "INTERCOMM", "OTHER_WORLD", "OP", "TYPE", "ARGUMENTS")
ROW = re.compile(r"^fanin: (\w+) +(\d+) +(\d+) +(\d+) ", re.M)
LEFT = re.compile(r"^fanin: \w+ +\d+ +\d+ +\d+ (.*)$", re.M)
REASON = re.compile(r" ([A-Z_]+) (\d+)")


def offloaded(report: str) -> dict[str, tuple[int, int]]:
    """For each function its calls that were offloaded, and that were not."""
    return {name: (int(done), int(left)) for name, done, _, left in ROW.findall(report)}


def eligible(report: str) -> int:
    """Calls that were offloaded, and those that devices could have done."""
    reasons = [(name, int(count)) for row in LEFT.findall(report) for name, count in REASON.findall(row)]
    left = sum(count for name, count in reasons if name not in NOT_ELIGIBLE)
    return sum(done for done, _ in offloaded(report).values()) + left
