"""The functions that the engine calls by address.

numba compiles a function together with all its callees, anew for each caller. Half of the engine can end a job, and
every contribution can complete a segment, so these two are compiled once, as C functions (`engine.function_addresses`).
They are also the only calls that run upwards through the layers of the engine.
"""

from numba import int64, uint64

from fanin_nic.engine.records.accessors import U64, ZERO
from fanin_nic.engine.records.tables import ENGINE, JOB, SLOT
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import address_of, call_function, load_u64

ABORT, PROCEED = 0, 1  # rows of the table


@internal
def entry_address(e, entry):
    return load_u64(address_of(e) + e.entry_offset + U64(entry) * U64(8))


@internal_for(ENGINE, JOB, int64, int64, uint64)
def abort(e, job, status, missing_kind, missing):
    """End a job with a status, once (`jobs.abort.end_job`). missing: members as a bitmap of scope `missing_kind`."""
    call_function(entry_address(e, ABORT), address_of(e), address_of(job), U64(status), U64(missing_kind), missing)


@internal_for(ENGINE, JOB, SLOT)
def proceed(e, job, slot):
    """Go on with a slot after a contributor's bit was cleared (`segments.complete.advance_segment`)."""
    call_function(entry_address(e, PROCEED), address_of(e), address_of(job), address_of(slot), ZERO, ZERO)
