"""A position that somebody will never contribute to, because he has left."""

from __future__ import annotations

from fanin_nic.engine.control.abort import abort
from fanin_nic.engine.control.blame import kind_below
from fanin_nic.engine.state import ZERO
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Status

STATUS_ABORTED = int(Status.ABORTED)


@internal
def abort_departed(e, job, slot):
    """ABORTED, naming who has left before the others were done."""
    here = slot.rank_missing & job.rank_left
    if here != ZERO:
        abort(e, job, STATUS_ABORTED, 0, here)
    else:
        abort(e, job, STATUS_ABORTED, kind_below(job), slot.node_missing & job.node_left)
