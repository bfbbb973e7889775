"""What every contribution has in common, wherever it comes from: how it enters a slot, and what follows from it."""

from __future__ import annotations

from fanin_nic.engine.control.abort import abort
from fanin_nic.engine.segment.complete import complete
from fanin_nic.engine.segment.contribute import HAS_DATA, add_data, matches, poison
from fanin_nic.engine.segment.slots import departed
from fanin_nic.engine.state import U64, ZERO, bit_of
from fanin_nic.native.compiled import compiled
from fanin_wire.abi import Status

OP_MISMATCH, STATUS_ABORTED = int(Status.OP_MISMATCH), int(Status.ABORTED)


@compiled
def take_packet(e, job, slot, header, payload):
    """The contribution of another device enters a slot. False: it does not fit the others, and the job has ended."""
    fits = matches(slot, header.op, header.dtype, header.flags, header.mid, header.sid)
    if fits and header.status:
        poison(slot, header.status)
    elif fits and header.flags & HAS_DATA:
        fits = add_data(e, job, slot, payload, header.length)
    if fits:
        slot.contributions += U64(header.contributions)
    else:
        abort(e, job, OP_MISMATCH, 1, bit_of(header.source))
    return fits


@compiled
def proceed(e, job, slot):
    """A bit of a slot was cleared: complete it if it was the last, end the job if one that is left will never come."""
    if departed(job, slot):
        abort_departed(e, job, slot)
    elif slot.rank_missing == ZERO and slot.node_missing == ZERO:
        complete(e, job, slot)


@compiled
def abort_departed(e, job, slot):
    """ABORTED, naming who has left before the others were done."""
    here = slot.rank_missing & job.rank_left
    if here != ZERO:
        abort(e, job, STATUS_ABORTED, 0, here)
    else:
        abort(e, job, STATUS_ABORTED, 1, slot.node_missing & job.node_left)
