"""The functions called by address (`records.accessors`), compiled as C functions, and their addresses."""

import functools
from typing import Any

import numpy as np
from numba import types
from numba.core.ccallback import CFunc

from fanin_nic.engine.jobs.abort import end_job
from fanin_nic.engine.records.accessors import ABORT, PROCEED, engine_at
from fanin_nic.engine.records.tables import ENTRIES, JOB, SLOT
from fanin_nic.engine.segments.complete import advance_segment
from fanin_nic.native.libraries import EntryCompiler
from fanin_nic.native.loading import load_alone
from fanin_nic.native.memory import record_at

FIVE_WORDS = types.void(*[types.uint64] * 5)
job_record, slot_record = record_at(JOB), record_at(SLOT)


def _abort(engine, job, status, missing_kind, missing):
    end_job(engine_at(engine), job_record(job), types.int64(status), types.int64(missing_kind), missing)


def _proceed(engine, job, slot, _fourth, _fifth):
    advance_segment(engine_at(engine), job_record(job), slot_record(slot))


@functools.cache
def entry_table() -> np.ndarray:
    """Addresses of the functions, uint64 of shape (ENTRIES,), compiled or loaded from the cache at the first call."""
    table = np.zeros(ENTRIES, np.uint64)
    for place, function in ((ABORT, _abort), (PROCEED, _proceed)):
        signature, options = (FIVE_WORDS.args, FIVE_WORDS.return_type), {"error_model": "numpy"}
        compiled: Any = CFunc(function, signature, {}, options, pipeline_class=EntryCompiler)
        compiled.enable_caching()
        load_alone(compiled._cache)
        compiled.compile()
        _kept.append(compiled)
        table[place] = compiled.address
    return table


_kept: list[object] = []  # keeps the machine code
