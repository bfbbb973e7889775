"""The STATUS of a device."""

import functools
import operator
import os
import time
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

import numpy as np

from fanin_nic.daemon.drain import Drain
from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.daemon.lanes.threads import LaneThreads
from fanin_nic.daemon.splitter.splitter import Splitter
from fanin_nic.engine.records.tables import JobState
from fanin_wire.abi import Route

MAX_LINKS = 256
OTHER = "other"  # the port's name for peers without a row


def version() -> str:
    """Version of the installed distribution."""
    try:
        return metadata.version("fanin")
    except metadata.PackageNotFoundError:
        return "unknown"


def job_status(parts: list[np.void]) -> dict[str, Any]:
    """Status of one job, from its records in its lanes."""
    first = parts[0]
    status = {"jid": int(first["jid"]), "route": Route(int(first["route"])).name.lower(), "state": _state(parts)}
    for name in ("slots", "window"):
        status[name] = sum(int(part[name]) for part in parts)
    status["chunk"] = int(first["chunk"])
    status["slots_high_water"] = sum(int(part["high_water"]) for part in parts)
    missing = (int(part["config_mask"]) & ~int(part["node_joined"]) for part in parts)
    return status | {"children_missing": functools.reduce(operator.or_, missing), "lanes": len(parts)}


def _state(parts: list[np.void]) -> str:
    """ABORTED if one lane has ended the job, else the state of the lane that is furthest behind."""
    states = {JobState(int(part["state"])) for part in parts}
    return (JobState.ABORTED if JobState.ABORTED in states else min(states)).name.lower()


def add_up(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of tables of counters, by name."""
    total: dict[str, int] = {}
    for table in tables:
        for name, value in table.items():
            total[name] = total.get(name, 0) + value
    return total


def busiest(links: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """The links with the most packets; "other" is the sum of the rest, which could make the status too long."""
    ranked = sorted(links, key=lambda address: -links[address]["tx_packets"] - links[address]["rx_packets"])
    shown = [address for address in ranked[:MAX_LINKS] if address != OTHER]
    rest = [links[address] for address in links if address not in shown]
    return {address: links[address] for address in links if address in shown} | ({OTHER: add_up(rest)} if rest else {})


class DeviceStatus:
    """Collects the status of a device's lanes."""

    def __init__(
        self, name: str, cores: list[LaneCore], threads: LaneThreads, splitter: Splitter | None, drain: Drain
    ) -> None:
        self.name, self._cores, self._threads, self._splitter, self._drain = name, cores, threads, splitter, drain
        self._profiled = False
        self._started = time.monotonic()
        self._version = version()  # now: it opens files, and descriptors may run out

    def __call__(self) -> dict[str, Any]:
        """The status, for JSON."""
        with self._threads.held():
            return self._collect()

    def _collect(self) -> dict[str, Any]:
        port = self._cores[0].port
        return {
            "name": self.name,
            "kind": "switch" if self._cores[0].engine.header["is_switch"] else "nic",
            "address": port.address,
            "pid": os.getpid(),
            "version": self._version,
            "draining": self._drain.begun,
            "uptime_s": round(time.monotonic() - self._started, 3),
            "mtu": port.mtu,
            "lanes": len(self._cores),
            "detection_s": int(self._cores[0].engine.header["detection"]) / 1e9,
            "slots": add_up(map(_slots, self._cores)),
            "jobs": [job_status(parts) for parts in self._jobs().values()],
            "links": self._links(),
            "ordinary": self._cores[0].ordinary.holdings() if self._cores[0].ordinary else {},
            "verbs": port.verbs(),
            "counters": self.counters(),
            "profile": self._stages(),
        }

    def profile(self, begin: bool) -> None:
        """Begin or end profiling of the lanes."""
        self._profiled = begin
        with self._threads.held():
            for core in self._cores:
                if begin:
                    core.begin_profile()
                else:
                    core.end_profile()

    def _stages(self) -> dict[str, tuple[int, int]] | None:
        """Nanoseconds and laps of each stage over all lanes; None without profiling."""
        if not self._profiled:
            return None
        tables = [core.profile() for core in self._cores]
        return {
            stage: (sum(table[stage][0] for table in tables), sum(table[stage][1] for table in tables))
            for stage in tables[0]
        }

    def _jobs(self) -> dict[int, list[np.void]]:
        """The lanes' records of each job, by job id."""
        jobs: dict[int, list[np.void]] = {}
        for core in self._cores:
            for job in _active_jobs(core):
                jobs.setdefault(int(job["jid"]), []).append(job)
        return jobs

    def _links(self) -> dict[str, dict[str, int]]:
        tables = [core.port.peers() for core in self._cores]
        addresses = dict.fromkeys(address for table in tables for address in table)
        return busiest({address: add_up(table.get(address, {}) for table in tables) for address in addresses})

    def counters(self) -> dict[str, int]:
        """Counters of all lanes, added up."""
        total = add_up(core.counters() for core in self._cores)
        if self._splitter is not None:
            total["cq_overflows"] += self._splitter.cq_overflows
        return total


def _active_jobs(core: LaneCore) -> np.ndarray:
    jobs = core.engine.tables["jobs"][:-1]
    return jobs[jobs["state"] != JobState.FREE]


def _slots(core: LaneCore) -> dict[str, int]:
    header = core.engine.header
    return {
        "total": int(header["slots"]),
        "leased": int(_active_jobs(core)["slots"].sum()),
        "used": int(header["slots_used"]),
        "high_water": int(header["slots_high_water"]),
    }
