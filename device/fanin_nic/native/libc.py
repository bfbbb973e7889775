"""The C library and the system calls that compiled code makes without Python.

They return -1 on failure; `errno()` has the reason. They are symbols of libc, not ctypes pointers, because numba can
cache only code without addresses of this process. Structures are passed by address.
"""

import errno as errno_names
import platform
import time

import numpy as np
from llvmlite import ir
from numba import int64, types
from numba.core import cgutils
from numba.extending import intrinsic

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import load_u32, load_u64

POINTER = types.uint64
SIZE = types.uint64

# int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags), and its opposite with a time-out.
sendmmsg = types.ExternalFunction("sendmmsg", types.int32(types.int32, POINTER, types.uint32, types.int32))
recvmmsg = types.ExternalFunction("recvmmsg", types.int32(types.int32, POINTER, types.uint32, types.int32, POINTER))
# int ppoll(struct pollfd *descriptors, nfds_t count, const struct timespec *timeout, const sigset_t *signals)
ppoll = types.ExternalFunction("ppoll", types.int32(POINTER, types.uint64, POINTER, POINTER))
# int poll(struct pollfd *descriptors, nfds_t count, int timeout_ms)
poll = types.ExternalFunction("poll", types.int32(POINTER, types.uint64, types.int32))
# int epoll_wait(int epoll, struct epoll_event *events, int capacity, int timeout_ms)
epoll_wait = types.ExternalFunction("epoll_wait", types.int32(types.int32, POINTER, types.int32, types.int32))
sched_yield = types.ExternalFunction("sched_yield", types.int32())

# ssize_t read(int fd, void *memory, size_t length), at the descriptor's own position.
read = types.ExternalFunction("read", types.int64(types.int32, POINTER, SIZE))
write = types.ExternalFunction("write", types.int64(types.int32, POINTER, SIZE))
# ssize_t pread(int fd, void *memory, size_t length, off_t offset)
pread = types.ExternalFunction("pread", types.int64(types.int32, POINTER, SIZE, types.int64))
pwrite = types.ExternalFunction("pwrite", types.int64(types.int32, POINTER, SIZE, types.int64))
# ssize_t preadv(int fd, const struct iovec *pieces, int count, off_t offset)
preadv = types.ExternalFunction("preadv", types.int64(types.int32, POINTER, types.int32, types.int64))
pwritev = types.ExternalFunction("pwritev", types.int64(types.int32, POINTER, types.int32, types.int64))

clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, POINTER))
# long syscall(long number, ...): the six argument registers
syscall = types.ExternalFunction("syscall", types.int64(*[types.int64] * 7))
_errno_location = types.ExternalFunction("__errno_location", POINTER())

# Layouts of the kernel's user interface on 64-bit Linux.
IOVEC = np.dtype([("base", "u8"), ("length", "u8")])
POLLFD = np.dtype([("fd", "i4"), ("events", "i2"), ("revents", "i2")])
MMSGHDR = np.dtype(
    [
        ("name", "u8"),  # address of a socket address
        ("name_length", "u4"),
        ("iov", "u8"),  # address of the first IOVEC
        ("iov_count", "u8"),
        ("control", "u8"),  # address of the control messages
        ("control_length", "u8"),
        ("flags", "i4"),
        ("reserved", "u4"),
        ("length", "u4"),  # bytes sent or received
        ("reserved_length", "u4"),
    ],
    align=True,
)

EPOLL_EVENT_BYTES = 16  # at most: x86 packs it into 12
POLLIN = 0x001
POLLOUT = 0x004
EAGAIN = errno_names.EAGAIN
EINTR = errno_names.EINTR

_SYS_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), -1)
_FUTEX_WAKE = 1
_EVERY_WAITER = 0x7FFF_FFFF


@intrinsic
def stack_bytes(typing_context, length):
    """Address of `length` bytes (a literal) on the stack of the calling function, aligned to 16."""
    if not isinstance(length, types.IntegerLiteral):
        return None
    size = length.literal_value

    def generate(context, builder, signature, arguments):
        area = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(8), size))
        area.align = 16
        return builder.ptrtoint(area, ir.IntType(64))

    return types.uint64(length), generate


@compiled
def errno():
    """Reason of this thread's last failure."""
    return load_u32(_errno_location())


@compiled
def monotonic_ns():
    """CLOCK_MONOTONIC in ns, as `time.monotonic_ns()`."""
    timespec = stack_bytes(16)
    clock_gettime(time.CLOCK_MONOTONIC, timespec)
    return int64(load_u64(timespec)) * 1_000_000_000 + int64(load_u64(timespec + 8))


@compiled
def futex_wake(address):
    """Wake every thread, of any process, that waits for the 32-bit word at `address` to change."""
    return syscall(_SYS_FUTEX, address, _FUTEX_WAKE, _EVERY_WAITER, 0, 0, 0)
