"""DMA of a host without a NIC: memcpy for mapped memory, else reads and writes of the memory file of a process. A write
of one segment there would cost a system call each, so writes that continue each other go out together, also if other
actions are between them in the table."""

from fanin_nic.engine.records.accessors import U64, action_at
from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import IOVEC, pread, pwritev, stack_bytes
from fanin_nic.native.memory import copy, load_i32, record_at
from fanin_nic.native.streaming import stream
from fanin_wire.abi import Status

LOOK_AHEAD = 512  # actions
PIECES = 64  # of one system call
PIECES_SIZE = PIECES * IOVEC.itemsize
IOVEC_SIZE = U64(IOVEC.itemsize)

iovec_at = record_at(IOVEC)


@compiled
def descriptor(memory_fds, action):
    """Descriptor of an action's process memory; -1: none."""
    return load_i32(memory_fds + U64(action.process - 1) * U64(4))


@compiled
def write_mapped(action):
    """Write a result into registered memory."""
    if action.is_long:
        stream(action.remote, action.payload, U64(action.length))
    else:
        copy(action.remote, action.payload, U64(action.length))


@compiled
def write_process(memory_fds, e, index, end):
    """Write a result into process memory, with the actions of the queue before `end` that continue it, which are then
    done. False: the memory is not, or not wholly, writable."""
    first = action_at(e, index)
    pieces = stack_bytes(PIECES_SIZE)
    count, length = 0, U64(0)
    for other in range(index, min(end, index + U64(LOOK_AHEAD))):
        action = action_at(e, other)
        if action.kind != ActionKind.DMA_WRITE or action.queue != first.queue or action.remote != first.remote + length:
            continue
        if action.mid != first.mid:  # a failed piece must fail its own request only
            continue
        piece = iovec_at(pieces + U64(count) * IOVEC_SIZE)
        piece.base = action.payload
        piece.length = action.length
        length += U64(action.length)
        action.kind = ActionKind.NONE
        count += 1
        if count == PIECES:
            break
    return pwritev(descriptor(memory_fds, first), pieces, count, int(first.remote)) == length


@compiled
def read_process(memory_fds, action, staging):
    """Read process memory into the staging area; returns the status. PEER_LOST: the process has ended, which may show
    before its connection is closed. (The memory file of an ended process is empty; a wrong address is an error.)"""
    taken = pread(descriptor(memory_fds, action), staging, U64(action.length), int(action.remote))
    if taken == 0:
        return Status.PEER_LOST
    return Status.SUCCESS if taken == action.length else Status.LOCAL_PROTECTION_ERROR
