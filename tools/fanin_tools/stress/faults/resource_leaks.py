"""Leaks of a fabric's devices: slots and jobs by their status, open files and memory by the kernel."""

import os
import time
from pathlib import Path

from fanin_tools.errors import ToolError
from fanin_tools.fabric import device_query
from fanin_tools.fabric.description import Device
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.stress.faults.fault_kinds import open_descriptors

RELEASE_SECONDS = 20.0
POLL_SECONDS = 0.05
SETTLED = 3  # rounds until a device has touched all its memory
GROWTH = 32 << 20  # bytes that the allocator may keep
PAGE = os.sysconf("SC_PAGE_SIZE")


def devices_holding_resources(running: Running, seconds: float = RELEASE_SECONDS) -> list[str]:
    """Devices that still hold slots or jobs `seconds` after all ranks have left."""
    end = time.monotonic() + seconds
    while (found := [each.name for each in running.fabric.daemons if _holds(running, each)]) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return found


def _holds(running: Running, device: Device) -> bool:
    """Slots or jobs. The record of an ended job without slots is for late members only."""
    try:
        status = device_query.query_status(running.state.socket(device.name))
    except ToolError:
        return True
    jobs = [job for job in status["jobs"] if job["state"] != "aborted" or job["slots"]]
    return bool(jobs or status["slots"]["used"] or status["slots"]["leased"])


def resident(process: ProcessIdentity) -> int:
    """In bytes, proc(5)."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * PAGE


class ResourceGrowth:
    """Over rounds. A restarted device begins anew."""

    def __init__(self) -> None:
        self._measurements: dict[ProcessIdentity, int] = {}
        self._files: dict[ProcessIdentity, int] = {}
        self._bytes: dict[ProcessIdentity, int] = {}

    def measure(self, running: Running) -> tuple[dict[str, int], dict[str, int]]:
        """Numbers of open files and of bytes by which devices have grown since the last call, by device."""
        files, memory = {}, {}
        for name, process in running.state.processes().items():
            if more := self._more_files(process):
                files[name] = more
            if (more := self._more_memory(process)) > 0:
                memory[name] = more
        return files, memory

    def _more_files(self, process: ProcessIdentity) -> int:
        end = time.monotonic() + RELEASE_SECONDS
        normal = self._files.setdefault(process, open_descriptors(process))
        while (found := open_descriptors(process)) > normal and time.monotonic() < end:
            time.sleep(POLL_SECONDS)  # it may still close files of clients that have just ended
        self._files[process] = min(found, normal) if found <= normal else found
        return max(0, found - normal)

    def _more_memory(self, process: ProcessIdentity) -> int:
        self._measurements[process] = self._measurements.get(process, 0) + 1
        found = resident(process)
        if self._measurements[process] <= SETTLED:
            self._bytes[process] = found
        more = found - self._bytes[process]
        if more <= GROWTH:
            return 0
        self._bytes[process] = found
        return more
