"""Memory shared with a client: the control region that we make, and the regions that the client registers."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import stat

import numpy as np

from fanin_nic.hostif.engine_port import Refused
from fanin_wire import abi
from fanin_wire.abi import Access, Status

PAGE = mmap.PAGESIZE
SQ_BYTES = abi.RING.itemsize + abi.SQ_DEPTH * abi.WQE.itemsize
CQ_BYTES = abi.RING.itemsize + abi.CQ_DEPTH * abi.CQE.itemsize
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
ALL_ACCESS = int(Access["READ"] | Access["WRITE"])
MAX_ADDRESS = 1 << 63


def _pages(length: int) -> int:
    return -(-length // PAGE) * PAGE


def record_view(address: int, dtype: np.dtype) -> np.ndarray:
    """One record of `dtype` over the memory at `address`, which must stay mapped as long as the view is used."""
    return np.frombuffer(memoryview((ctypes.c_ubyte * dtype.itemsize).from_address(address)), dtype, count=1)


class Mapping:
    """A shared mapping of `length` bytes of a file, at `address` of this process."""

    def __init__(self, descriptor: int, length: int, offset: int = 0, writable: bool = True) -> None:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._map = mmap.mmap(descriptor, length, mmap.MAP_SHARED, protection, offset=offset)
        view = np.frombuffer(self._map, "u1")
        self.address = view.ctypes.data

    def close(self) -> None:
        """Unmap. Whoever has the address must have forgotten it."""
        self._map.close()


class ControlRegion:
    """Doorbell page, send rings and completion rings of one client, each on pages of its own, in a sealed memfd."""

    sq_offset = PAGE
    sq_stride = _pages(SQ_BYTES)
    cq_stride = _pages(CQ_BYTES)

    def __init__(self, max_qp: int, max_cq: int) -> None:
        self.cq_offset = self.sq_offset + max_qp * self.sq_stride
        self.length = self.cq_offset + max_cq * self.cq_stride
        self.descriptor = os.memfd_create("fanin-control", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, self.length)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SEALS)
        self._mapping = Mapping(self.descriptor, self.length)
        self._doorbell = record_view(self.doorbell, abi.DOORBELL)

    @property
    def doorbell(self) -> int:
        """Address of the struct fanin_doorbell."""
        return self._mapping.address

    def send_ring(self, index: int) -> int:
        """Address of a send ring."""
        return self._mapping.address + self.sq_offset + index * self.sq_stride

    def completion_ring(self, index: int) -> int:
        """Address of a completion ring."""
        return self._mapping.address + self.cq_offset + index * self.cq_stride

    def clear_ring(self, address: int) -> None:
        """Make a ring empty, before it is used again."""
        record_view(address, abi.RING)[:] = 0

    def announce(self, detection_ms: int) -> None:
        """Tell the client after how long a device that stands still is lost."""
        self._doorbell["detection_ms"] = detection_ms

    def mark_gone(self) -> None:
        """Tell the client that the device does not serve it any more."""
        self._doorbell["device_gone"] = 1

    def close(self) -> None:
        """Unmap and close; the client's own mapping stays valid."""
        self._mapping.close()
        os.close(self.descriptor)


class ClientRegion:
    """A region that a client registers: bytes of its memfd, mapped here. Refused if they are not safe to map."""

    def __init__(self, descriptor: int, start: int, length: int, offset: int, access: int) -> None:
        _require(0 < length < MAX_ADDRESS and start < MAX_ADDRESS and start + length < MAX_ADDRESS)
        _require(access != 0 and access & ~ALL_ACCESS == 0)
        _check_memfd(descriptor, offset + length)
        skipped = offset % PAGE
        try:
            writable = bool(access & Access["WRITE"])
            self._mapping = Mapping(descriptor, length + skipped, offset - skipped, writable)
        except (OSError, ValueError, OverflowError) as error:
            raise Refused(Status["LOCAL_PROTECTION_ERROR"], f"the memory can not be mapped: {error}") from None
        self.start, self.length, self.access = start, length, access
        self.address = self._mapping.address + skipped

    def close(self) -> None:
        """Unmap."""
        self._mapping.close()


def _require(condition: bool) -> None:
    if not condition:
        raise Refused(Status["INVALID_REQUEST"], "the bounds or rights of a region")


def _check_memfd(descriptor: int, end: int) -> None:
    """A file that may shrink would let the client kill us with SIGBUS."""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        raise Refused(Status["LOCAL_PROTECTION_ERROR"], "not a memfd") from None
    if not seals & fcntl.F_SEAL_SHRINK:
        raise Refused(Status["LOCAL_PROTECTION_ERROR"], "the memfd is not sealed against shrinking")
    if os.fstat(descriptor).st_size < end:
        raise Refused(Status["LOCAL_PROTECTION_ERROR"], "the region ends behind the end of its memfd")


def is_process_memory(descriptor: int) -> bool:
    """Whether a descriptor can be what clients pass as their memory: a regular file open for reading and writing.

    That it really is /proc/PID/mem does not matter for safety: it has only the rights that the client had to open it.
    """
    mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    return stat.S_ISREG(os.fstat(descriptor).st_mode) and mode == os.O_RDWR
