"""Drain: a device takes no new job, lets the running ones end, and then ends itself.

Running are a job that has not ended here, a queue pair of a client (its rank has yet to learn of the end of its job),
and a queue pair of ordinary traffic. A job with a member here is not new. Record 0074: why a signal begins it, and why
it is never cancelled.
"""

import contextlib
import os
import threading
from collections.abc import Sequence

import numpy as np

from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.engine.records.tables import JobState

POLL_SECONDS = 0.1  # the end of a job gives no event, on a switch for example
ENDED = (JobState.FREE, JobState.ABORTED)


class Drain:
    """The drain of a device with the lanes `cores`. wake_writer makes the loop of lane 0 return. The methods are for
    lane 0's thread, `begin` and `holdings` while all lanes are held."""

    def __init__(self, cores: Sequence[LaneCore], wake_writer: int) -> None:
        self._cores, self._wake_writer = cores, wake_writer
        self._ended = threading.Event()
        self._clock = threading.Thread(target=self._tick, name="drain", daemon=True)
        self.begun = False

    def begin(self) -> None:
        """Take no new job, and no new queue pair of ordinary traffic, from now on."""
        self.begun = True
        for core in self._cores:
            core.engine.header["draining"] = 1
            if core.ordinary is not None:
                core.ordinary.draining = True
        self._clock.start()

    def _tick(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            with contextlib.suppress(BlockingIOError):  # full: the loop will wake
                os.write(self._wake_writer, b"\0")

    def holdings(self) -> dict[str, int]:
        """Numbers of what still runs, by kind, without zeros."""
        jobs = {int(jid) for core in self._cores for jid in _running(core)}
        ordinary = self._cores[0].ordinary
        found = {
            "jobs": len(jobs),
            "queue pairs": int(np.count_nonzero(self._cores[0].engine.tables["queues"]["active"])),
            "queue pairs of ordinary traffic": ordinary.holdings()["queue_pairs"] if ordinary else 0,
        }
        return {kind: count for kind, count in found.items() if count}

    def end(self) -> None:
        """The loop has ended: wake nothing any more."""
        self._ended.set()
        if self._clock.ident is not None:
            self._clock.join()


def _running(core: LaneCore) -> np.ndarray:
    jobs = core.engine.tables["jobs"][:-1]
    return jobs["jid"][~np.isin(jobs["state"], ENDED)]
