"""The tap of a device: a ring of records for each lane (fanin_wire/tap.py)."""

import fcntl
import os
from typing import Any

import numpy as np

from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.daemon.lanes.threads import LaneThreads
from fanin_nic.daemon.loop.tapped import reasons
from fanin_nic.hostif.mapping import SEALS, Mapping
from fanin_nic.native.tap import TAP
from fanin_nic.port.descriptors import RECEIVED_CAPACITY
from fanin_wire.abi import TapFlag
from fanin_wire.tap import RING_HEAD, UNIT

NOBODY = 0


class DeviceTap:
    """Opens and closes the tap. `name`: of the device."""

    def __init__(self, name: str, cores: list[LaneCore], threads: LaneThreads) -> None:
        self._name, self._cores, self._threads = name, cores, threads
        self._records = np.zeros(len(cores), TAP)
        self._received = np.zeros((len(cores), RECEIVED_CAPACITY), "u8")
        self._mapping: Mapping | None = None
        self._descriptor = -1

    def begin(self, request: np.void) -> int:
        flags, units = int(request["flags"]), int(request["units"])
        stride = RING_HEAD.itemsize + units * UNIT
        self._make_rings(stride * len(self._cores))
        assert self._mapping is not None
        self._records[:] = 0
        self._received[:] = 0
        records = self._records
        records["ring"] = self._mapping.address + np.arange(len(self._cores), dtype="u8") * np.uint64(stride)
        records["received"] = [row.ctypes.data for row in self._received]
        records["units"], records["jid"], records["kinds"] = units, request["jid"], request["kinds"]
        for member in ("packets", "segments", "one_job"):
            records[member] = flags & TapFlag[member.upper()] != 0
        self._show(bool(flags & TapFlag.SEGMENTS))
        return self._descriptor

    def description(self) -> dict[str, Any]:
        """The name of the device, its lanes, and the reasons for drops."""
        return {"name": self._name, "lanes": len(self._cores), "reasons": reasons()}

    def end(self) -> None:
        with self._threads.paused():
            for core in self._cores:
                core.set_tap(NOBODY, NOBODY)
        if self._mapping is not None:
            self._mapping.close()
            os.close(self._descriptor)
        self._mapping, self._descriptor = None, -1

    def _make_rings(self, length: int) -> None:
        """Memory for the rings. A reader can not shrink it, which would kill the device."""
        self._descriptor = os.memfd_create("fanin-tap", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self._descriptor, length)
            fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, SEALS)
            self._mapping = Mapping(self._descriptor, length)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _show(self, segments: bool) -> None:
        """Let the lanes record from now on."""
        with self._threads.paused():
            for number, core in enumerate(self._cores):
                address = self._records[number:].ctypes.data
                core.set_tap(address, address if segments else NOBODY)
