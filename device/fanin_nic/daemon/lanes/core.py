"""One lane: its engine, its port, its host interface, and the LANE record of the compiled loop."""

import os
from collections.abc import Iterable

import numpy as np

from fanin_nic.daemon.lanes.host_port import HostPort
from fanin_nic.daemon.lanes.ordinary_host import OrdinaryHost
from fanin_nic.daemon.loop import lane
from fanin_nic.daemon.loop.lane_record import INTERRUPT_FLAG, LANE, MAX_NOTICES
from fanin_nic.daemon.splitter.tables import LANE_DOORBELL
from fanin_nic.engine.engine import Engine
from fanin_nic.engine.records.actions import ACTION, READ_BYTES
from fanin_nic.engine.records.tables import Counter
from fanin_nic.native import shared_words
from fanin_nic.native.profile import Profile
from fanin_nic.port.port import Port
from fanin_wire import abi

NO_FD = -1


class LaneCore:
    """The parts of lane `number`. `state`: address of its LANE record. `ordinary`: the device's ordinary traffic, if in
    this lane.

    One thread calls `run`. All other methods except `interrupt` and `jobs_aborted` need the lane to stand still. The
    lanes of a device wake each other through doorbells, records of LANE_DOORBELL.
    """

    def __init__(self, number: int, engine: Engine, port: Port, ordinary: OrdinaryHost | None = None) -> None:
        self.number, self.engine, self.port, self.ordinary = number, engine, port, ordinary
        self.host = HostPort(engine)
        self._record = np.zeros(1, LANE)
        self.state = int(self._record.ctypes.data)
        self._staging = np.zeros(READ_BYTES, np.uint8)
        self._notices = np.zeros(MAX_NOTICES, ACTION)
        self._reads = np.zeros(engine.limits.queues * abi.MAX_ADDRESSES, ACTION)
        self._doorbell = np.zeros(1, abi.DOORBELL)
        self._doorbells = np.zeros(0, "u8")
        self._profile = Profile()
        self._eventfd = NO_FD
        self._fill_record()

    def _fill_record(self) -> None:
        record = self._record[0]
        record["engine"], record["port"] = self.engine.base, self.port.state
        record["send_rings"] = self.host.send_rings.ctypes.data
        record["completion_rings"] = self.host.completion_rings.ctypes.data
        record["arrival_rings"] = self.host.arrival_rings.ctypes.data
        record["memory_fds"] = self.host.memory_fds.ctypes.data
        record["remotes"] = self.host.remotes.ctypes.data
        record["staging"] = self._staging.ctypes.data
        record["reads"] = self._reads.ctypes.data
        record["overrun"] = self.host.overrun.ctypes.data
        if self.ordinary is not None:
            record["transport"] = self.ordinary.transport.base
            record["ordinary_rings"] = self.ordinary.rings.ctypes.data
            record["shared_rings"] = self.ordinary.shared_rings.ctypes.data
            record["ordinary_completion_rings"] = self.ordinary.completion_rings.ctypes.data
        record["notices"] = self._notices.ctypes.data
        record["receive_fd"], record["group_fd"] = self.port.receive_fd, self.port.group_fd
        for descriptor in ("control_fd", "wake_fd", "lane_doorbell_fd", "doorbells_fd"):
            record[descriptor] = NO_FD

    def watch(self, control_fd: int, doorbells_fd: int, wake_fd: int) -> None:
        """Let `run` return when `control_fd` or `wake_fd` is readable, and wake when `doorbells_fd` is."""
        self._record["control_fd"], self._record["wake_fd"] = control_fd, wake_fd
        self._record["doorbells_fd"] = doorbells_fd

    def make_doorbell(self) -> tuple[int, int]:
        """Make the LANE_DOORBELL by which other threads wake this lane."""
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._record["lane_doorbell_fd"] = self._eventfd
        return int(self._doorbell.ctypes.data), self._eventfd

    def connect(self, doorbells: np.ndarray, splitter: int = 0) -> None:
        """Make it one lane of several. doorbells: LANE_DOORBELL of each; splitter: address of the SPLITTER to drive."""
        assert doorbells.dtype == LANE_DOORBELL
        self._record["host_doorbell"], self._record["splitter"] = doorbells.ctypes.data, splitter

    def refresh(self, doorbells: Iterable[int]) -> None:
        """Set the doorbells for sleep, and the queues in use."""
        if self._eventfd != NO_FD:
            doorbells = [*doorbells, int(self._doorbell.ctypes.data)]
        self._doorbells = np.array(list(doorbells), "u8")
        record = self._record[0]
        record["queues"] = self.engine.header["queue_end"] = self.host.queues_in_use
        record["remote_end"], record["remote_broken"] = self.host.remote_end, 0
        record["ordinary_end"] = self.ordinary.end if self.ordinary else 0
        record["shared_end"] = self.ordinary.shared_end if self.ordinary else 0
        record["doorbells"], record["doorbell_count"] = self._doorbells.ctypes.data, len(self._doorbells)

    def run(self) -> lane.Reason:
        """Work until Python is needed (lane.run)."""
        return lane.Reason(lane.run(self.state))

    def interrupt(self) -> None:
        """Let `run` return soon. Called by another thread."""
        shared_words.store_release(self.state + int(INTERRUPT_FLAG), 1)
        os.eventfd_write(self._eventfd, 1)

    def resume(self) -> None:
        """End an interrupt, when `run` has returned."""
        shared_words.store_release(self.state + int(INTERRUPT_FLAG), 0)

    def take_notices(self) -> list[np.void]:
        """Answers to JOIN and LEAVE since the last call, records of ACTION."""
        count = int(self._record[0]["notice_count"])
        self._record[0]["notice_count"] = 0
        return list(self._notices[:count].copy())

    @property
    def jobs_aborted(self) -> int:
        """Number of jobs that ended early in this lane. May be called while it runs."""
        return int(self.engine.tables["counters"][Counter.JOBS_ABORTED])

    def begin_profile(self) -> None:
        self._set_profile(self._profile.begin())

    def end_profile(self) -> None:
        self._set_profile(0)

    def _set_profile(self, address: int) -> None:
        self._record["profile"] = address
        self.port.set_profile(address)

    def profile(self) -> dict[str, tuple[int, int]]:
        """Nanoseconds and laps by stage since `begin_profile`."""
        return self._profile.stages()

    def set_tap(self, packets: int, segments: int) -> None:
        """Record packets by the TAP at one address, steps of segments by that at another; 0: off."""
        self.port.set_tap(packets)
        self.engine.header["tap"] = segments

    def counters(self) -> dict[str, int]:
        """Counters of engine, port, loop and ordinary traffic; those of the same name are added up."""
        total = self.engine.counters()
        for name, value in self.port.drops().items():
            total[name] = total.get(name, 0) + value
        for name in ("cq_overflows", "dma_errors"):
            total[name] = int(self._record[0][name])
        total["cq_overflows"] += self.host.lost_completions
        return total | (self.ordinary.counters() if self.ordinary else {})

    def close(self) -> None:
        self.port.close()
        if self._eventfd != NO_FD:
            os.close(self._eventfd)
