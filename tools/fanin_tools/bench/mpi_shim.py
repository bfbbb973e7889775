"""An MPI whose collectives go to our devices: what its ranks are told, and whether they did.

A call that the shim leaves to the MPI is measured as well as any other, and would be taken for ours. So what the shim
reports at the end is compared with the calls that were made.
"""

from __future__ import annotations

import os
import re

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import mpirun
from fanin_tools.launch.placement import place
from fanin_tools.quantities import counted

THRESHOLDS = "FANIN_MPI_THRESHOLDS"
EVERYTHING = "all=0-"  # whatever pays by itself: the table is to say what does
ROW = re.compile(r"^fanin: (\w+) +(\d+) +\d+ +(\d+)(.*)$", re.MULTILINE)


def environment(running: Running, ranks: int, route: str) -> dict[str, str]:
    """Variables of every rank: the shim, its devices, the report at the end."""
    thresholds = os.environ.get(THRESHOLDS, EVERYTHING)
    return mpirun.environment(running, place(running.fabric, ranks, route)) | {
        "FANIN_MPI_REPORT": "1",
        THRESHOLDS: thresholds,
    }


def shortfall(report: str, calls: int) -> str:
    """Of what all ranks have said, and of the allreduces that they made: what was not offloaded; "" if all was."""
    rows = {name: (int(offloaded), int(left), why.strip()) for name, offloaded, left, why in ROW.findall(report)}
    if "Allreduce" not in rows:
        return "nothing offloaded: the shim has reported no call"
    offloaded, left, why = rows["Allreduce"]
    if offloaded == calls and not left:
        return ""
    return f"{calls - offloaded} of {counted(calls, 'call')} not offloaded{': ' if why else ''}{why}"


def left_to_mpi(report: str) -> str | None:
    """The rows of the report that have calls which were not offloaded, as words; None if there is no report."""
    rows = ROW.findall(report)
    return "; ".join(f"{name} {left} {why.strip()}" for name, _, left, why in rows if int(left)) if rows else None
