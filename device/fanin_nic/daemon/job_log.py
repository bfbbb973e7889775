"""The log of jobs: the route of each, and why it has ended early."""

import ipaddress
import logging

import numpy as np

from fanin_nic.engine.records.tables import JobState
from fanin_wire.abi import Route, Status
from fanin_wire.status import status_entry

log = logging.getLogger(__name__)
SEEN = ["jid", "key", "state"]  # of a job


class JobLog:
    """Logs changes in a table of jobs (records.tables.JOB)."""

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
