"""The machine on which a measurement runs."""

import os
import platform
import re
from pathlib import Path


def describe() -> dict[str, object]:
    """Processor, usable cores, kernel, and the load before the measurement."""
    found = {"cpu": _processor(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}
    return found | {"load": round(os.getloadavg()[0], 1)}


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()
