"""The next step of a segment, as contributions call it: by address (see `entries`)."""

from __future__ import annotations

from fanin_nic.engine.state import PROCEED, ZERO, entry_address
from fanin_nic.engine.tables import ENGINE, JOB, SLOT
from fanin_nic.native.compiled import internal_for
from fanin_nic.native.memory import address_of, call_function


@internal_for(ENGINE, JOB, SLOT)
def proceed(e, job, slot):
    """A bit of a slot was cleared: go on if it was the last, end the job if one that is left will never come."""
    call_function(entry_address(e, PROCEED), address_of(e), address_of(job), address_of(slot), ZERO, ZERO)
