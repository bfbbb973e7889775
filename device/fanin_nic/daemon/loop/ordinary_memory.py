"""Memory of ordinary traffic: mapped, or the memory file of a process.

Atomics are atomic among each other, since one thread performs all of a device, but not with accesses of programs.
"""

from fanin_nic.daemon.loop.dma import descriptor
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import pread, pwrite, stack_bytes
from fanin_nic.native.memory import copy, load_u64, store_be64, store_u64
from fanin_nic.transport.records.accessors import U64
from fanin_wire.rocev2 import ATOMIC_BYTES


@compiled
def write(memory_fds, action):
    """Write the payload of an action to its memory. False: not, or not wholly."""
    if not action.process:
        copy(action.remote, action.payload, U64(action.length))
        return True
    length = U64(action.length)
    return U64(pwrite(descriptor(memory_fds, action), action.payload, length, int(action.remote))) == length


@compiled
def read(memory_fds, action, place):
    """Read the payload of an action to an address. False: not, or not wholly."""
    if not action.process:
        copy(place, action.payload, U64(action.length))
        return True
    length = U64(action.length)
    return U64(pread(descriptor(memory_fds, action), place, length, int(action.payload))) == length


@compiled
def change_word(memory_fds, action, is_add):
    """Perform an atomic; the former value goes to the action's payload. False: the memory can not be reached."""
    word = stack_bytes(8)
    if not action.process:
        copy(word, action.remote, U64(ATOMIC_BYTES))
    elif pread(descriptor(memory_fds, action), word, U64(ATOMIC_BYTES), int(action.remote)) != ATOMIC_BYTES:
        return False
    before = load_u64(word)
    store_be64(action.payload, before)
    if not is_add and before != action.compare:
        return True
    store_u64(word, before + action.operand if is_add else action.operand)
    if not action.process:
        copy(action.remote, word, U64(ATOMIC_BYTES))
        return True
    return pwrite(descriptor(memory_fds, action), word, U64(ATOMIC_BYTES), int(action.remote)) == ATOMIC_BYTES
