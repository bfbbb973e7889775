"""Memory shared with a client: the control region, which the device makes, and the client's registered regions."""

import ctypes
import fcntl
import mmap
import os

import numpy as np

from fanin_nic.hostif.ports import Refused
from fanin_nic.hostif.rings import ARRIVAL_RING_BYTES, CONSUMER, GONE, PRODUCER
from fanin_nic.native import shared_words
from fanin_wire import abi
from fanin_wire.abi import Access, Status

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
MAP_FAILED = ctypes.c_void_p(-1).value

PAGE = mmap.PAGESIZE
SQ_BYTES = abi.RING.itemsize + abi.SQ_DEPTH * abi.WQE.itemsize
CQ_BYTES = abi.RING.itemsize + abi.CQ_DEPTH * abi.CQE.itemsize
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
COLLECTIVE_ACCESS = Access.READ | Access.WRITE
ALL_ACCESS = int(sum(Access))
ORDINARY_SEND_BYTES = abi.RING.itemsize + abi.ORDINARY_DEPTH * abi.SEND_WQE.itemsize
ORDINARY_RECEIVE_BYTES = abi.RING.itemsize + abi.ORDINARY_DEPTH * abi.RECEIVE_WQE.itemsize
SHARED_BYTES = abi.RING.itemsize + abi.SHARED_DEPTH * abi.RECEIVE_WQE.itemsize
MAX_ADDRESS = 1 << 63
TMPFS_MAGIC, PROC_MAGIC = 0x0102_1994, 0x9FA0  # linux/magic.h
STATFS_BYTES = 256  # more than a struct statfs


def _pages(length: int) -> int:
    return -(-length // PAGE) * PAGE


def record_view(address: int, dtype: np.dtype) -> np.ndarray:
    """One record of `dtype` over the memory at `address`, which must stay mapped while the view is used."""
    return np.frombuffer(memoryview((ctypes.c_ubyte * dtype.itemsize).from_address(address)), dtype, count=1)


class Mapping:
    """A shared mapping of `length` bytes of a file, at `address` of this process. (Python's mmap module would keep a
    copy of the descriptor, and a client could use up the device's descriptors.)"""

    def __init__(self, descriptor: int, length: int, offset: int = 0, writable: bool = True) -> None:
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        address = _libc.mmap(None, length, protection, mmap.MAP_SHARED, descriptor, offset)
        if address == MAP_FAILED:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.address, self._length = int(address), length

    def close(self) -> None:
        """The address must not be used any more."""
        _libc.munmap(self.address, self._length)


class ControlRegion:
    """Doorbell page, send, completion and arrival rings of one client, and the rings of its ordinary traffic and shared
    receive queues, each on pages of its own, in a sealed memfd."""

    sq_offset = PAGE
    sq_stride = _pages(SQ_BYTES)
    cq_stride = _pages(CQ_BYTES)
    aq_stride = _pages(ARRIVAL_RING_BYTES)
    oq_receive = _pages(ORDINARY_SEND_BYTES)
    oq_stride = oq_receive + _pages(ORDINARY_RECEIVE_BYTES)
    srq_stride = _pages(SHARED_BYTES)

    def __init__(self, max_qp: int, max_cq: int, max_ordinary_qp: int = 0, max_shared_queues: int = 0) -> None:
        self.max_qp, self.max_cq = max_qp, max_cq
        self.max_ordinary_qp, self.max_shared_queues = max_ordinary_qp, max_shared_queues
        self.cq_offset = self.sq_offset + max_qp * self.sq_stride
        self.aq_offset = self.cq_offset + max_cq * self.cq_stride
        self.oq_offset = self.aq_offset + max_qp * self.aq_stride
        self.srq_offset = self.oq_offset + max_ordinary_qp * self.oq_stride
        self.length = self.srq_offset + max_shared_queues * self.srq_stride
        self.descriptor = os.memfd_create("fanin-control", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, self.length)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SEALS)
            self._mapping = Mapping(self.descriptor, self.length)
        except BaseException:
            os.close(self.descriptor)
            raise
        self._doorbell = record_view(self.doorbell, abi.DOORBELL)

    @property
    def doorbell(self) -> int:
        """Address of the struct fanin_doorbell."""
        return self._mapping.address

    def send_ring(self, index: int) -> int:
        return self._mapping.address + self.sq_offset + index * self.sq_stride

    def completion_ring(self, index: int) -> int:
        return self._mapping.address + self.cq_offset + index * self.cq_stride

    def arrival_ring(self, index: int) -> int:
        return self._mapping.address + self.aq_offset + index * self.aq_stride

    def ordinary_rings(self, index: int) -> tuple[int, int]:
        """Addresses of the send and receive ring of a queue pair of ordinary traffic."""
        send = self._mapping.address + self.oq_offset + index * self.oq_stride
        return send, send + self.oq_receive

    def shared_ring(self, index: int) -> int:
        return self._mapping.address + self.srq_offset + index * self.srq_stride

    def clear_ring(self, address: int) -> None:
        """Empty a ring before it is used again."""
        record_view(address, abi.RING)[:] = 0

    def empty_ring(self, address: int) -> None:
        """Drop the requests that a client has posted to a ring."""
        producer = shared_words.load_acquire(address + int(PRODUCER))
        shared_words.store_release(address + int(CONSUMER), producer)

    def announce(self, detection_ms: int) -> None:
        """Tell the client the time after which it may give up a device that stands still."""
        self._doorbell["detection_ms"] = detection_ms

    def mark_gone(self) -> None:
        """Tell the client that the device no longer serves it, so that it may use its memory again."""
        shared_words.store_release(self.doorbell + int(GONE), 1)

    def close(self) -> None:
        """Unmap and close; the client's own mapping stays valid."""
        self._mapping.close()
        os.close(self.descriptor)


class ClientRegion:
    """A client's region: bytes of its memfd, mapped here. Raises Refused if they are not safe to map."""

    def __init__(self, descriptor: int, start: int, length: int, offset: int, access: int) -> None:
        _require(0 < length < MAX_ADDRESS and start < MAX_ADDRESS and start + length < MAX_ADDRESS)
        _require(access != 0 and access & ~(ALL_ACCESS if access & Access.ORDINARY else COLLECTIVE_ACCESS) == 0)
        _check_memfd(descriptor, offset + length)
        skipped = offset % PAGE
        try:
            writable = bool(access & Access.WRITE)
            self._mapping = Mapping(descriptor, length + skipped, offset - skipped, writable)
        except (OSError, OverflowError, ctypes.ArgumentError) as error:
            raise Refused(Status.LOCAL_PROTECTION_ERROR, f"the memory can not be mapped: {error}") from None
        self.start, self.length, self.access = start, length, access
        self.address = self._mapping.address + skipped

    def close(self) -> None:
        self._mapping.close()


def _require(condition: bool) -> None:
    if not condition:
        raise Refused(Status.INVALID_REQUEST, "the bounds or rights of a region")


def _check_memfd(descriptor: int, end: int) -> None:
    """Refuse a file that could harm the device. If it shrank, the client could kill the device with SIGBUS; so it could
    with huge pages, whose pool can be empty when a hole in them is touched. (A hole in ordinary pages reads as
    zeros.)"""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        raise Refused(Status.LOCAL_PROTECTION_ERROR, "not a memfd") from None
    if not seals & fcntl.F_SEAL_SHRINK:
        raise Refused(Status.LOCAL_PROTECTION_ERROR, "the memfd is not sealed against shrinking")
    if _filesystem_of(descriptor) != TMPFS_MAGIC:
        raise Refused(Status.LOCAL_PROTECTION_ERROR, "a memfd of huge pages")
    if os.fstat(descriptor).st_size < end:
        raise Refused(Status.LOCAL_PROTECTION_ERROR, "the region exceeds its memfd")


def is_process_memory(descriptor: int) -> bool:
    """Whether a descriptor is /proc/PID/mem, open for reading and writing.

    Of any process: the descriptor has only the rights with which the client opened it. Another file could make the
    device wait for a file system's server, or write where only the device may write.
    """
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_PATH) != os.O_RDWR:
        return False
    name = os.readlink(f"/proc/self/fd/{descriptor}")
    return name.endswith("/mem") and _filesystem_of(descriptor) == PROC_MAGIC


def _filesystem_of(descriptor: int) -> int:
    """Its magic number."""
    answer = ctypes.create_string_buffer(STATFS_BYTES)
    if _libc.fstatfs(descriptor, answer):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return ctypes.c_long.from_buffer(answer).value
