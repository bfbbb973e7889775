"""DMA as a host without a NIC can do it: memcpy into mapped memory, preadv and pwritev on a process's memory file."""

from __future__ import annotations

from fanin_nic.engine.state import U64
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import pread, pwrite
from fanin_nic.native.memory import copy, load_i32
from fanin_wire.abi import Status

SUCCESS, LOCAL_PROTECTION_ERROR = int(Status.SUCCESS), int(Status.LOCAL_PROTECTION_ERROR)


@compiled
def descriptor(memory_fds, action):
    """Descriptor of the memory of the process that an action names; -1: none."""
    return load_i32(memory_fds + U64(action.process - 1) * U64(4))


@compiled
def write_mapped(action):
    """A result into registered memory."""
    copy(action.remote, action.payload, U64(action.length))


@compiled
def write_process(memory_fds, action):
    """A result into ordinary memory of a process. False: it is not (wholly) writable there."""
    written = pwrite(descriptor(memory_fds, action), action.payload, U64(action.length), int(action.remote))
    return written == action.length


@compiled
def read_process(memory_fds, action, staging):
    """Ordinary memory of a process into the staging area. Returns the status."""
    taken = pread(descriptor(memory_fds, action), staging, U64(action.length), int(action.remote))
    return SUCCESS if taken == action.length else LOCAL_PROTECTION_ERROR
