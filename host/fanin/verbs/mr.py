"""MR: memory that the device maps and accesses without a copy."""

import contextlib
from typing import Any

from fanin.driver import because, check, complaint, ffi, library
from fanin.errors import FaninError, InvalidRequest
from fanin.verbs.context import Context
from fanin.verbs.pd import PD
from fanin.verbs.resource import Resource, columns
from fanin.verbs.shared_memory import SharedMemory
from fanin_wire.abi import Access
from fanin_wire.verbs import Access as Rights

READ_WRITE = int(Access["READ"] | Access["WRITE"])
MOST = 1 << 62  # bytes; more than any machine has
LARGER_LIMIT = "Raise the limit of this process, or ask for less memory."
LESS_MEMORY = "Ask for less memory, or drop arrays and tensors that are not needed."


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
                pd.context.handle, -1, 0, place[0], min(length, MOST), _rights(access), pd.domain, lkey
            )
        elif access is not None:
            status = library().fanin_allocate_ordinary(
                pd.context.handle, min(length, MOST), _rights(access), pd.domain, place, lkey
            )
        else:
            status = library().fanin_allocate(pd.context.handle, min(length, MOST), READ_WRITE, place, lkey)
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
    return int(Access["READ"]) | given
