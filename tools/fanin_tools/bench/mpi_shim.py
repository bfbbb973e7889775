"""An MPI with the shim: the environment of its ranks, and the calls that were not offloaded.

A call that the shim leaves to the MPI must not count as the devices' time, so the shim's report at the end is compared
with the calls that were made.
"""

import os
import re
from collections import Counter
from dataclasses import dataclass

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import mpirun
from fanin_tools.launch.placement import place
from fanin_tools.quantities import counted

REPORT = "FANIN_MPI_REPORT"
THRESHOLDS = "FANIN_MPI_THRESHOLDS"
EVERYTHING = "all=0-"  # offload every size, also where that is slower
JOIN = "FANIN_MPI_JOIN"
FROM_THE_START = "early"  # offload the first calls, too
ROW = re.compile(r"^fanin: (\w+) +(\d+) +\d+ +(\d+)(.*)$", re.MULTILINE)
HEAD = "fanin: calls of all ranks"
REASON = re.compile(r"([A-Z_]+) (\d+)")


@dataclass(frozen=True)
class Calls:
    """Calls of a collective, of all ranks: how many were offloaded, and how many left to the MPI, by reason."""

    collective: str
    offloaded: int
    left: dict[str, int]


def environment(running: Running, ranks: int, route: str, forced: bool = True) -> dict[str, str]:
    """Environment variables of every rank: the shim, its devices, the report. forced: offload every call from the first
    on, unless the environment has settings of its own."""
    variables = mpirun.environment(running, place(running.fabric, ranks, route)) | {REPORT: "1"}
    settings = {THRESHOLDS: EVERYTHING, JOIN: FROM_THE_START} if forced else {}
    return variables | {name: os.environ.get(name, value) for name, value in settings.items()}


def calls_left(report: str) -> dict[str, str]:
    """By collective why calls were left to the MPI; "" if all were offloaded. report: the output of all ranks."""
    return {name: why.strip(" ()") if int(left) else "" for name, _, left, why in ROW.findall(report)}


def shortfall(report: str, calls: int) -> str:
    """The calls that were not offloaded, in words; "" if all were. report: the output of all ranks. calls: number of
    allreduces that they made."""
    rows = {name: (int(offloaded), int(left), why.strip()) for name, offloaded, left, why in ROW.findall(report)}
    if "Allreduce" not in rows:
        return "nothing offloaded: the shim has reported no call"
    offloaded, left, why = rows["Allreduce"]
    if offloaded == calls and not left:
        return ""
    return f"{calls - offloaded} of {counted(calls, 'call')} not offloaded{': ' if why else ''}{why}"


def calls(report: str) -> list[Calls] | None:
    """The calls of all collectives, summed over programs, from the output of all ranks; None without a report."""
    if HEAD not in report:
        return None
    offloaded: Counter[str] = Counter()
    left: dict[str, Counter[str]] = {}
    for name, done, _, why in ROW.findall(report):
        offloaded[name] += int(done)
        left.setdefault(name, Counter()).update({reason: int(count) for reason, count in REASON.findall(why)})
    return [Calls(name, offloaded[name], dict(left[name])) for name in left]


def warnings(report: str) -> list[str]:
    """The shim's lines in the output of all ranks, without its report."""
    explained = {reason for *_, why in ROW.findall(report) for reason, _ in REASON.findall(why)}
    lines = [line.removeprefix("fanin: ") for line in report.splitlines() if line.startswith("fanin: ")]
    of_report = [HEAD.removeprefix("fanin: "), "MPI_COMM_WORLD: route ", *(f"{reason}:" for reason in explained)]
    return [line for line in lines if not line.startswith(tuple(of_report)) and not ROW.match(f"fanin: {line}")]
