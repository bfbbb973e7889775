"""An MPI whose collectives go to our devices: what its ranks are told, and whether they did.

A call that the shim leaves to the MPI is measured as well as any other, and would be taken for ours. So what the shim
reports at the end is compared with the calls that were made.
"""

from __future__ import annotations

import os
import re

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.job import mpirun
from fanin_tools.job.placement import place
from fanin_tools.quantities import counted

THRESHOLDS = "FANIN_MPI_THRESHOLDS"
EVERYTHING = "all=0-"  # whatever pays by itself: the table is to say what does
ROW = re.compile(r"^fanin: Allreduce +(\d+) +\d+ +(\d+)(.*)$", re.MULTILINE)


def environment(running: Running, ranks: int, route: str) -> dict[str, str]:
    """Variables of every rank: the shim, its devices, the report at the end."""
    thresholds = os.environ.get(THRESHOLDS, EVERYTHING)
    return mpirun.environment(running, place(running.fabric, ranks, route)) | {
        "FANIN_MPI_REPORT": "1",
        THRESHOLDS: thresholds,
    }


def shortfall(report: str, calls: int) -> str:
    """Of what all ranks have said and the calls that they made: what was not offloaded, as words; "" if all was."""
    found = ROW.search(report)
    if found is None:
        return "nothing offloaded: the shim has reported no call"
    offloaded, left, why = int(found[1]), int(found[2]), found[3].strip()
    if offloaded == calls and not left:
        return ""
    return f"{calls - offloaded} of {counted(calls, 'call')} not offloaded{': ' if why else ''}{why}"
