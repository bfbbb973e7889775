"""Abort, as the rest of the engine calls it: by address (see `entries`)."""

from __future__ import annotations

from numba import int64, uint64

from fanin_nic.engine.state import ABORT, U64, entry_address
from fanin_nic.engine.tables import ENGINE, JOB
from fanin_nic.native.compiled import internal_for
from fanin_nic.native.memory import address_of, call_function


@internal_for(ENGINE, JOB, int64, int64, uint64)
def abort(e, job, status, missing_kind, missing):
    """End a job with a status, once. `missing`: who it is about, of a kind of `blame`."""
    call_function(entry_address(e, ABORT), address_of(e), address_of(job), U64(status), U64(missing_kind), missing)
