"""Functions of the engine that its own code calls by address.

numba compiles a function together with all that it calls, and again with each of its callers. Half of the engine can
end a job, and every contribution can complete a segment: compiled into each caller, these two are a tenth of all
machine code. So they are compiled once, as C functions whose addresses stand in the arena, beside those of the kernels.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cfunc, types

from fanin_nic.engine.jobs.abort import end_job
from fanin_nic.engine.records.accessors import engine_at
from fanin_nic.engine.records.function_table import ABORT, PROCEED
from fanin_nic.engine.records.tables import ENTRIES, JOB, SLOT
from fanin_nic.engine.segments.complete import advance_segment
from fanin_nic.native.libraries import EntryCompiler
from fanin_nic.native.memory import record_at

FIVE_WORDS = types.void(*[types.uint64] * 5)
job_record, slot_record = record_at(JOB), record_at(SLOT)


def _abort(engine, job, status, missing_kind, missing):
    end_job(engine_at(engine), job_record(job), types.int64(status), types.int64(missing_kind), missing)


def _proceed(engine, job, slot, _fourth, _fifth):
    advance_segment(engine_at(engine), job_record(job), slot_record(slot))


@functools.cache
def entry_table() -> np.ndarray:
    """Addresses of the functions, uint64 of shape (ENTRIES,); compiled, or read from the cache, at the first call."""
    table = np.zeros(ENTRIES, np.uint64)
    for place, function in ((ABORT, _abort), (PROCEED, _proceed)):
        compiled = cfunc(FIVE_WORDS, cache=True, error_model="numpy", pipeline_class=EntryCompiler)(function)
        _kept.append(compiled)
        table[place] = compiled.address
    return table


_kept: list[object] = []  # the machine code lives as long as these
