"""SharedMemory: memory that several devices and processes map."""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Any

from fanin.driver import ffi
from fanin.errors import InvalidRequest, NoResources

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW  # a shorter file would make devices and processes fault


class SharedMemory:
    """`length` bytes of new, zeroed memory: a sealed memfd that this process maps.

    `MR(pd, length, memory=...)` registers it; each of several devices has an MR of its own over the same bytes. Another
    process that got `fd` over a UNIX socket maps it with `SharedMemory.of(fd)`, and may read and write all of it.

    buf: a writable buffer. The memory stays mapped until its last view is gone. Raises InvalidRequest for 0 bytes,
    NoResources if the system has no such memory.
    """

    def __init__(self, length: int) -> None:
        if length <= 0:
            raise InvalidRequest(f"length {length} of shared memory is not positive", remedy="Ask for a byte or more.")
        fd = -1
        try:
            fd = os.memfd_create("fanin-shared", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(fd, length)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
            self._map(fd, length)
        except (OSError, OverflowError) as error:
            if fd >= 0:
                os.close(fd)
            raise NoResources(
                f"{length} bytes of shared memory can not be made: {error}", remedy="Ask for less memory."
            ) from None

    @classmethod
    def of(cls, fd: int) -> SharedMemory:
        """The memory of another process, by a descriptor, which this object then owns.

        Raises InvalidRequest for a file that is not sealed, since its owner could truncate it, which would end this
        process; NoResources if it can not be mapped.
        """
        try:
            sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS == SEALS
            length = os.fstat(fd).st_size
        except OSError:
            sealed, length = False, 0
        if not sealed or not length:
            os.close(fd)
            raise InvalidRequest("the descriptor is not of sealed shared memory", remedy="Give that of a SharedMemory.")
        memory = cls.__new__(cls)
        try:
            memory._map(fd, length)
        except OSError as error:
            os.close(fd)
            raise NoResources(
                f"{length} bytes of shared memory can not be mapped: {error}", remedy="Free other memory."
            ) from None
        return memory

    def _map(self, fd: int, length: int) -> None:
        self.buf: Any = mmap.mmap(fd, length)
        self.fd = fd
        self.length = length
        self.address = int(ffi.cast("uintptr_t", ffi.from_buffer(self.buf)))

    def close(self) -> None:
        """Close the descriptor. Mappings and registrations stay. Harmless twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> SharedMemory:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()
