"""The oracle of hostile packets, in compiled code: a packet must be accepted, or dropped for one reason.

The engine's clock stands still, so an accepted packet changes the time of its sender's last packet.
"""

import enum

import numpy as np
from numba import int64, uint64

from fanin_nic.engine.records.accessors import engine_at
from fanin_nic.engine.records.tables import JOB, Counter
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import copy, load_u64
from fanin_wire.fields import Opcode

JOB_SIZE = uint64(JOB.itemsize)
DROPS = np.array([counter for counter in Counter if counter.name.startswith("DROP_")], np.int64)
FIRST, LAST = int(DROPS.min()), int(DROPS.max())
IS_DROP = np.array([counter in DROPS for counter in range(LAST + 1)])
# Drops that may be answered: old and known packets, and jobs that the sender must end.
ANSWERED = (Counter.DROP_STALE, Counter.DROP_DUPLICATE, Counter.DROP_VERSION, Counter.DROP_UNKNOWN_JOB)
MAY_ANSWER = np.array([counter in (*ANSWERED, Counter.DROP_SENDER) for counter in range(LAST + 1)])
# Opcodes that may be accepted without a change: keep-alives, and what the engine already knows.
MAY_BE_NEWS = np.zeros(256, np.bool_)
MAY_BE_NEWS[[Opcode.KEEPALIVE, Opcode.ACK, Opcode.CONFIG_ACK, Opcode.WAIT]] = True


class Verdict(enum.IntEnum):
    """TAKEN, or what must not happen. A positive verdict is the counter of a drop."""

    TAKEN = 0
    SILENT = -1  # no change, and no reason counted
    COUNTED_TWICE = -2
    CHANGED = -3  # dropped, but the engine has changed
    FOREIGN = -4  # a job with a key that the sender does not know has changed


@compiled
def differs(one, other, length):
    """Memory of a multiple of 8 bytes."""
    found = uint64(0)
    for place in range(uint64(0), uint64(length), uint64(8)):
        found |= load_u64(one + place) ^ load_u64(other + place)
    return found != uint64(0)


@compiled
def remember(base, mirror, size):
    """The engine's state before a packet."""
    copy(uint64(mirror), uint64(base), uint64(size))


@compiled
def is_changed(base, mirror, size):
    """Whether jobs, children, slots, queues, requests, regions or payload differ from the copy."""
    e = engine_at(uint64(base))
    jobs = uint64(e.jobs) * JOB_SIZE  # without the spare record after them
    if differs(base + e.job_offset, mirror + e.job_offset, jobs):
        return True
    if differs(base + e.child_offset, mirror + e.child_offset, e.action_offset - e.child_offset):
        return True
    return differs(base + e.payload_offset, mirror + e.payload_offset, uint64(size) - e.payload_offset)


@compiled
def classify(base, mirror, size, opcode, protected, protected_count):
    """The verdict on the engine's last packet. protected: address of (offset, length) pairs of memory that the sender
    must not be able to change."""
    base, mirror = uint64(base), uint64(mirror)
    e = engine_at(base)
    for index in range(protected_count):
        row = uint64(protected) + uint64(index) * uint64(16)
        offset = load_u64(row)
        if differs(base + offset, mirror + offset, load_u64(row + uint64(8))):
            return Verdict.FOREIGN
    reason, reasons = int64(0), uint64(0)
    for counter in range(FIRST, LAST + 1):
        place = e.counter_offset + uint64(counter) * uint64(8)
        grown = load_u64(base + place) - load_u64(mirror + place)
        if IS_DROP[counter] and grown:
            reason = counter
            reasons += grown
    if reasons > uint64(1):
        return Verdict.COUNTED_TWICE
    if reason and MAY_ANSWER[reason]:
        return reason
    changed = e.action_count != 0 or is_changed(base, mirror, size)
    if reason:
        return Verdict.CHANGED if changed else reason
    ordinary = e.counter_offset + uint64(Counter.ORDINARY_PACKETS * 8)
    if changed or MAY_BE_NEWS[opcode] or load_u64(base + ordinary) != load_u64(mirror + ordinary):
        return Verdict.TAKEN
    return Verdict.SILENT
