"""What follows when a contributor's bit has been cleared in a slot."""

from __future__ import annotations

from fanin_nic.engine.segment.complete import complete, send_early
from fanin_nic.engine.segment.contribute import has_all_it_needs
from fanin_nic.engine.segment.departure import abort_departed
from fanin_nic.engine.segment.slots import departed
from fanin_nic.engine.state import ZERO
from fanin_nic.engine.tables import Upward
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Route

RING = int(Route.RING)
NOTHING = int(Upward.NOTHING)


@internal
def step(e, job, slot):
    """A bit of a slot was cleared: complete it if it was the last, end the job if one that is left will never come."""
    if departed(job, slot):
        abort_departed(e, job, slot)
    elif slot.rank_missing == ZERO and slot.node_missing == ZERO:
        complete(e, job, slot)
    elif has_all_it_needs(slot) and job.has_parent and job.route != RING and slot.upward == NOTHING:
        send_early(e, job, slot)
