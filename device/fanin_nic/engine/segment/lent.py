"""Data that need no seg buffer: what the only rank of a NIC brings goes out from the rank's own memory.

Nobody adds to it here, and the rank leaves it alone until its request is complete; so what is lost goes out again from
there, too. That holds unless a result of the same request is written over data that may still have to: so it must come
to where its own data are, or to memory apart from all of them. A request whose memory is taken away ends with its job.
"""

from __future__ import annotations

from fanin_nic.engine.segment.arithmetic import travels_wide
from fanin_nic.engine.segment.contribute import HAS_DATA, SEGMENTS
from fanin_nic.engine.segment.geometry import range_bytes
from fanin_nic.engine.state import ONE, U64, ZERO, address_place, address_record, count, payload_of
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Route

TREE = int(Route.TREE)


@internal
def lends(e, job, request):
    """Whether the data of a request are sent from where they are."""
    alone = (
        job.route == TREE and job.has_parent and job.node_mask == ZERO and job.rank_mask & (job.rank_mask - ONE) == ZERO
    )
    if not alone or job.buffers != job.span or request.poison or request.inline or request.source_process:
        return False
    if travels_wide(e, job, request.op, request.dtype, request.contributors):
        return False
    return not spoils(request)


@internal
def spoils(request):
    """Whether results of a request of one rank are written over data of others of its segments."""
    address = address_record(address_place(request, 0))
    wanted = range_bytes(request.length, request.block, address.destination_first, address.destination_blocks)
    brought = range_bytes(request.length, request.block, address.source_first, address.source_blocks)
    if wanted == ZERO or brought == ZERO or request.destination_process:
        return False
    if address.destination + wanted <= address.source or address.source + brought <= address.destination:
        return False
    return address.destination - address.source != (
        U64(address.destination_first) * request.block - U64(address.source_first) * request.block
    )


@internal
def lend(e, slot, address, length):
    """The data of the one contributor of a slot lie at `address`, and stay there."""
    slot.flags |= HAS_DATA
    slot.length = length
    slot.lent = address
    count(e, SEGMENTS)


@internal
def data_of(e, job, slot):
    """Address of the data of a slot: in its buffer, or where they were lent."""
    return U64(slot.lent) if slot.lent != ZERO else payload_of(e, job, slot.position)
