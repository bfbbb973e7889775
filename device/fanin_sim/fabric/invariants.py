"""The invariants of slots, which must hold in a device after every event. Compiled code checks them.

I3: no slot serves two positions. The position of a slot is congruent to its index, and never decreases. I4: the slots
in use never exceed the lease, and the device counts them right.
"""

import enum

import numpy as np

from fanin_nic.engine.engine import Engine
from fanin_nic.engine.records.accessors import U64, distance, engine_at, job_at, slot_at
from fanin_nic.engine.records.tables import JobState, SlotState
from fanin_nic.native.memory import load_u32, load_u64, store_u32, store_u64
from fanin_sim.jit import compiled

RUNS = U64(1 << 32)  # beside the key of a job that runs: a key may be 0


class Broken(enum.IntEnum):
    """The invariant that does not hold."""

    NOTHING = 0
    POSITION_MISPLACED = 1  # a slot serves a position that another slot has to serve
    POSITION_WENT_BACK = 2  # a slot serves an earlier position than before
    LEASE_EXCEEDED = 3
    WRONG_COUNT = 4  # slots_used is not the number of slots in use


class BrokenInvariant(AssertionError):
    """An invariant does not hold: its name in `Broken`."""


@compiled
def _check_slot(job, slot, offset, last):
    """Checks a slot of a running job. `last`: address of the slot's position at the previous check."""
    if (slot.position - offset) & (job.slots - 1):
        return Broken.POSITION_MISPLACED
    went = distance(slot.position, load_u32(last))
    store_u32(last, slot.position)
    return Broken.POSITION_WENT_BACK if went < 0 else 0


@compiled
def check(base, keys, positions):
    """Checks the invariants of a device.

    Args:
        base: address of the engine's arena.
        keys: address of a uint64 for each job: its key and RUNS at the previous check, 0 if it did not run.
        positions: address of the uint32 position of each slot at the previous check.

    Returns the number of the broken invariant in `Broken`; 0 if all hold.
    """
    e = engine_at(base)
    used = 0
    for index in range(e.jobs):
        job = job_at(e, index)
        known = keys + U64(index) * U64(8)
        if job.state == JobState.FREE or job.window == 0:  # no lease, or none agreed yet
            store_u64(known, U64(0))
            continue
        fresh = load_u64(known) != RUNS | U64(job.key)
        store_u64(known, RUNS | U64(job.key))
        occupied = 0
        for offset in range(job.slots):
            slot = slot_at(e, job.slot_base + offset)
            last = positions + U64(job.slot_base + offset) * U64(4)
            if fresh:
                store_u32(last, slot.position)
            broken = _check_slot(job, slot, offset, last)
            if broken:
                return broken
            if slot.state != SlotState.DONE:
                occupied += 1
        if occupied != job.occupied or occupied > job.slots:
            return Broken.LEASE_EXCEEDED
        used += occupied
    return 0 if used == e.slots_used else Broken.WRONG_COUNT


class Watch:
    """The positions of a device's slots at the previous check. `addresses`: the last two arguments of `check`."""

    def __init__(self, engine: Engine) -> None:
        self._keys = np.zeros(engine.limits.jobs, np.uint64)
        self._positions = np.zeros(engine.limits.slots, np.uint32)
        self.addresses = self._keys.ctypes.data, self._positions.ctypes.data

    def save(self) -> bytes:
        return self._keys.tobytes() + self._positions.tobytes()

    def restore(self, saved: bytes) -> None:
        self._keys[:] = np.frombuffer(saved, np.uint64, len(self._keys))
        self._positions[:] = np.frombuffer(saved, np.uint32, len(self._positions), self._keys.nbytes)
