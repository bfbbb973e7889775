"""What a device says of itself when it is asked for its STATUS."""

from __future__ import annotations

import os
import time
from importlib import metadata
from typing import Any

import numpy as np

from fanin_nic.engine.engine import Engine
from fanin_nic.engine.state import JobState
from fanin_nic.port.sockets import UdpPort
from fanin_wire.abi import Route


def version() -> str:
    """Version of the installed distribution."""
    try:
        return metadata.version("fanin")
    except metadata.PackageNotFoundError:
        return "unknown"


def job_status(job: np.void) -> dict[str, Any]:
    """One job of a device."""
    return {
        "jid": int(job["jid"]),
        "route": Route(int(job["route"])).name.lower(),
        "state": JobState(int(job["state"])).name.lower(),
        "slots": int(job["slots"]),
        "window": int(job["window"]),
        "chunk": int(job["chunk"]),
        "slots_high_water": int(job["high_water"]),
        "children_missing": int(job["config_mask"]) & ~int(job["node_joined"]),
    }


class DeviceStatus:
    """Collects the status of a device's parts."""

    def __init__(self, name: str, engine: Engine, port: UdpPort, lane: np.ndarray) -> None:
        self.name, self._engine, self._port, self._lane = name, engine, port, lane
        self._started = time.monotonic()

    def __call__(self) -> dict[str, Any]:
        """The status, as it goes out as JSON."""
        header, jobs = self._engine.header, self._engine.tables["jobs"][:-1]
        active = jobs[jobs["state"] != JobState.FREE]
        return {
            "name": self.name,
            "kind": "switch" if header["is_switch"] else "nic",
            "address": self._port.address,
            "pid": os.getpid(),
            "version": version(),
            "uptime_s": round(time.monotonic() - self._started, 3),
            "mtu": self._port.mtu,
            "slots": {
                "total": int(header["slots"]),
                "leased": int(active["slots"].sum()),
                "used": int(header["slots_used"]),
                "high_water": int(header["slots_high_water"]),
            },
            "jobs": [job_status(job) for job in active],
            "links": self._port.peers(),
            "counters": self.counters(),
        }

    def counters(self) -> dict[str, int]:
        """Counters of engine, port and lane under one roof; reasons that both can have are added up."""
        total = self._engine.counters()
        for name, value in self._port.drops().items():
            total[name] = total.get(name, 0) + value
        for name in ("cq_overflows", "dma_errors"):
            total[name] = int(self._lane[0][name])
        return total
