"""PD, MR and SharedMemory: memory that one device or several map, and read and write without a copy."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from typing import Any

from fanin.driver import because, check, complaint, ffi, library
from fanin.errors import FaninError, InvalidRequest, NoResources
from fanin.verbs.context import Context
from fanin.verbs.resource import Resource, columns
from fanin_wire.abi import Access
from fanin_wire.verbs import Access as Rights

READ_WRITE = Access.READ | Access.WRITE
MAX_LENGTH = 1 << 62  # bytes; more than any machine has
LARGER_LIMIT = "Raise the limit of this process, or ask for less memory."
LESS_MEMORY = "Ask for less memory, or drop arrays and tensors that are not needed."
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW  # a shorter file would make devices and processes fault


class PD(Resource):
    """Protection domain of a context, in which memory regions and queue pairs are made. Ordinary traffic reaches memory
    of its own domain only, collectives that of all domains of a context."""

    def __init__(self, context: Context) -> None:
        context.require_open()
        self.context = context
        self.domain = context.new_domain()
        super().__init__(context)

    def require_beside(self, queue: Any) -> None:
        """Refuse a closed queue, and one of another context, where its number may name another queue."""
        queue.require_open()
        if queue.context is not self.context:
            raise InvalidRequest(
                f"the {type(queue).__name__} belongs to another context", remedy="Make all on one Context."
            )

    def __str__(self) -> str:
        return columns(socket=self.context.socket_path, domain=self.domain)


class MR(Resource):
    """`length` bytes of new, zeroed, registered memory: a sealed memfd that both sides map.

    `buf` is a writable buffer over it (numpy.frombuffer(mr.buf, ...)). The memory lives until its last view is gone,
    also when MR, context or device is closed before.

    access: IBV_ACCESS_LOCAL_WRITE and so on, for ordinary traffic and collectives; None: all rights, for collectives
    only. address: register existing memory of this process, for ordinary traffic only; it must stay until the MR is
    closed. memory: register this shared memory, which several devices may have.
    """

    collectable = True

    def __init__(
        self,
        pd: PD,
        length: int,
        access: int | None = None,
        address: int | None = None,
        memory: SharedMemory | None = None,
    ) -> None:
        if length <= 0:
            raise InvalidRequest(
                f"length {length} of a memory region is not positive", remedy="Ask for a byte or more."
            )
        if memory is not None and (address is not None or length > memory.length or memory.fd < 0):
            raise InvalidRequest(
                f"a region of {length} bytes can not be made of this shared memory of {memory.length} bytes",
                remedy="Give an open SharedMemory that is long enough, and no address.",
            )
        pd.require_open()
        place, lkey = ffi.new("void **"), ffi.new("uint32_t *")
        if memory is not None:
            place[0] = ffi.cast("void *", memory.address)
            status = _register(pd, memory.fd, place[0], length, access, lkey)
        elif address is not None:
            place[0] = ffi.cast("void *", address)
            status = library().fanin_register_ordinary(
                pd.context.handle, -1, 0, place[0], min(length, MAX_LENGTH), _rights(access), pd.domain, lkey
            )
        elif access is not None:
            status = library().fanin_allocate_ordinary(
                pd.context.handle, min(length, MAX_LENGTH), _rights(access), pd.domain, place, lkey
            )
        else:
            status = library().fanin_allocate(pd.context.handle, min(length, MAX_LENGTH), READ_WRITE, place, lkey)
        detail = f"can not register {length} bytes{because()}"
        check(status, detail, NO_RESOURCES=LARGER_LIMIT if complaint() else LESS_MEMORY)
        self.length = length
        self.lkey = self.rkey = int(lkey[0])
        self._mapping = Mapping(pd.context, length, self.lkey)
        self._shared = memory  # stays mapped as long as this
        is_new = address is None and memory is None
        self._memory = ffi.gc(place[0], self._mapping.unmap) if is_new else place[0]
        self.address = int(ffi.cast("uintptr_t", place[0]))
        self.collectable = is_new  # else the device would still access memory that the program has freed
        super().__init__(pd)

    @property
    def buf(self) -> Any:
        """A writable buffer, which keeps the memory mapped."""
        return ffi.buffer(self._memory, self.length)

    def read(self, length: int, offset: int) -> bytes:
        self._check_range(length, offset)
        return bytes(self.buf[offset : offset + length])

    def write(self, data: bytes, length: int, offset: int = 0) -> None:
        """Store the first `length` bytes of `data`."""
        self._check_range(length, offset)
        self.buf[offset : offset + length] = data[:length]

    def _check_range(self, length: int, offset: int) -> None:
        if offset < 0 or length < 0 or offset + length > self.length:
            complaint = f"bytes {offset} to {offset + length} of a region of {self.length}"
            raise InvalidRequest(complaint, remedy="Stay within the region.")

    def _release(self) -> None:
        self._mapping.deregister()

    def __str__(self) -> str:
        return columns(lkey=f"{self.lkey:#x}", address=f"{self.address:#x}", length=self.length)


def _register(pd: PD, memfd: int, address: Any, length: int, access: int | None, lkey: Any) -> int:
    """The status of a registration."""
    handle = pd.context.handle
    if access is None:
        return int(library().fanin_register(handle, memfd, 0, address, length, READ_WRITE, lkey))
    rights = _rights(access)
    return int(library().fanin_register_ordinary(handle, memfd, 0, address, length, rights, pd.domain, lkey))


def _rights(access: int | None) -> int:
    """Rights of the host interface from those of verbs."""
    given = int(Rights.LOCAL_WRITE) if access is None else access
    if unknown := given & ~int(sum(Rights)):
        raise InvalidRequest(f"access flags {unknown:#x} of a memory region are not known", remedy="Use IBV_ACCESS_...")
    return int(Access.READ) | given


class Mapping:
    """Memory of fanin_allocate: deregistered once, unmapped when its last view is gone."""

    def __init__(self, context: Context, length: int, lkey: int) -> None:
        self.context = context
        self.length = length
        self.lkey = lkey
        self.registered = True

    def deregister(self) -> None:
        """Take the memory from the device, unless device or context has already let go of it."""
        if not self.registered:
            return
        self.registered = False
        if not self.context.closed:
            check(library().fanin_deregister(self.context.handle, self.lkey), f"can not deregister lkey {self.lkey:#x}")

    def unmap(self, address: Any) -> None:
        """Called by the garbage collector."""
        with contextlib.suppress(FaninError):  # the device is gone; this side is freed anyway
            self.deregister()
        library().fanin_unmap(address, self.length)


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
