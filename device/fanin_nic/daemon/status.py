"""The STATUS of a device, and its logs of jobs and of packets that could not be sent."""

import errno
import functools
import ipaddress
import logging
import operator
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from fanin_nic.daemon.drain import Drain
from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.daemon.lanes.threads import LaneThreads
from fanin_nic.daemon.splitter.splitter import Splitter
from fanin_nic.engine.records.tables import JobState
from fanin_nic.port.port import Port
from fanin_wire.abi import Route, Status
from fanin_wire.status import status_entry

MAX_LINKS = 256
OTHER = "other"  # the port's name for peers without a row
SEEN = ["jid", "key", "state"]  # members of a job that the log compares
SILENCE = 60.0  # seconds between two lines about packets to one device
PATIENCE = 1.0  # seconds before an error that mostly passes is logged
OWN_MTU = 0  # in place of an errno
FULL_QUEUE = (errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM)
PASSING = (*FULL_QUEUE, errno.ENOTCONN)  # mostly passes
FULL = "the queue of the network interface is full again and again: see ip -s link"
REMEDIES = {
    OWN_MTU: "a packet of this device was longer than its MTU of {mtu} bytes: report this defect",
    **dict.fromkeys(FULL_QUEUE, FULL),
    errno.ENOTCONN: "its queue pair is not known, because it has not answered: see whether that device is up",
    errno.EIO: "the RDMA device has failed: this device's log has said how",
    errno.EMSGSIZE: "the network interface or the route carries less than MTU {mtu}: raise its MTU, or start all"
    " devices of the path with a smaller --mtu",
    errno.EPERM: "a packet filter of this machine refuses them: let UDP port 4791 pass (nft list ruleset)",
    errno.EACCES: "the system refuses them: see its packet filters, and whether it is a broadcast address",
    errno.ENETUNREACH: "no route leads to it: see ip route get {address}, and whether the interface is up",
    errno.EHOSTUNREACH: "it does not answer on its network: see ip neigh show {address}",
    errno.ENETDOWN: "the network interface is down: ip link set up",
    errno.ENODEV: "the network interface is gone",
    errno.EINVAL: "this machine has lost the address of this device, or the kernel can not cut packets of"
    " MTU {mtu}: see ip address",
}
log = logging.getLogger(__name__)


# The status


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
        with self._threads.paused():
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
        with self._threads.paused():
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


def version() -> str:
    """Version of the installed distribution."""
    try:
        return metadata.version("fanin")
    except metadata.PackageNotFoundError:
        return "unknown"


# The log of jobs


class JobLog:
    """Logs the route of each job, and why it has ended early, from changes in a table of jobs (records.tables.JOB)."""

    def __init__(self, jobs: np.ndarray) -> None:
        self._jobs = jobs
        self._seen = jobs[SEEN].copy()

    def look(self) -> None:
        """Log what is new; cheap if nothing is."""
        seen = self._jobs[SEEN].copy()
        for index in np.flatnonzero(seen != self._seen):
            job, before = self._jobs[index], self._seen[index]
            if job["state"] == JobState.ACTIVE:
                _tell_start(job)
            elif job["state"] == JobState.ABORTED and _is_same(job, before):  # else it never ran here
                _tell_end(job)
        self._seen = seen


def _is_same(job: np.void, before: np.void) -> bool:
    """Whether an ended job is the one before, and had not ended or left."""
    running = before["state"] in (JobState.JOINING, JobState.CONFIGURING, JobState.ACTIVE)
    return bool(running and job["jid"] == before["jid"] and job["key"] == before["key"])


def _tell_start(job: np.void) -> None:
    way = Route(int(job["route"])).name.lower()
    if job["route"] == Route.RING:
        way += f", next {_address(job['next_address'])}"
    if job["has_parent"]:
        way += f", below {_address(job['parent_address'])}"
    log.info("job %d runs: %s; segments of %d bytes, %d slots", job["jid"], way, job["chunk"], job["slots"])


def _tell_end(job: np.void) -> None:
    entry, about = status_entry(int(job["status"])), ""
    if job["lost_device"]:
        about = f", about {_address(job['lost_device'])}"
    level = logging.INFO if job["status"] == Status.ABORTED else logging.WARNING  # another member has the cause
    log.log(level, "job %d has ended with %s%s: %s", job["jid"], entry.name, about, entry.meaning)


def _address(number: int) -> str:
    return str(ipaddress.IPv4Address(int(number)))


# The log of send errors


class SendErrors:
    """Logs, for each other device, the first failed packet at once, then at most a line a minute: a counter grows in
    silence, an administrator reads the log. ports: of all lanes."""

    def __init__(self, ports: Sequence[Port]) -> None:
        self._ports = ports
        self._failed = 0
        self._logged: dict[str, tuple[int, float]] = {}  # packets in the last line, and when the next may come
        self._last: dict[str, tuple[int, float]] = {}  # packets so far, and when the last one was lost

    def look(self) -> None:
        """Log what is new; cheap if nothing is."""
        failed = sum(port.failed_sends() for port in self._ports)
        if failed == self._failed:
            return
        self._failed = failed
        for port in self._ports:
            for address, (count, code) in port.send_errors().items():
                self._look_at(port, address, count, code)

    def _look_at(self, port: Port, address: str, count: int, code: int) -> None:
        key, now = f"{port.lane} {address}", time.monotonic()
        told, next_line = self._logged.get(key, (0, now))
        before, lost_at = self._last.get(key, (0, 0.0))
        if count == before and code in PASSING:
            return  # it has passed
        if count != before:
            self._last[key] = count, now
            if code in PASSING and now - lost_at > 2 * PATIENCE:
                next_line = max(next_line, now + PATIENCE)  # for example a queue that was not full before
        if count == told or now < next_line:
            self._logged[key] = told, next_line
            return
        self._logged[key] = count, now + SILENCE
        remedy = REMEDIES.get(code, "the kernel's log may say more").format(mtu=port.mtu, address=address)
        log.warning("%d packets to %s could not be sent: %s; %s", count - told, address, _words(code), remedy)


def _words(code: int) -> str:
    """The name and number of an error."""
    return f"{errno.errorcode.get(code, 'error')} {code}" if code else "longer than the MTU of the device"
