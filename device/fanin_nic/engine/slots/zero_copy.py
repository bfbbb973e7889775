"""Data that need no seg buffer: what the only rank of a NIC brings goes out from the rank's own memory.

Nobody adds to it here, and the rank leaves it alone until its request is complete; so what is lost is read there once
more, and copied then, for all further times. That holds unless a result of the same request is written over data that
may still have to go out: so it must come to where its own data are, or to memory apart from all of them. A request
whose memory is taken away ends with its job.
"""

from __future__ import annotations

from fanin_nic.engine.records.accessors import ONE, U64, ZERO, count, payload_of
from fanin_nic.engine.records.geometry import range_bytes
from fanin_nic.engine.slots.arithmetic import travels_wide
from fanin_nic.engine.slots.contribution import HAS_DATA, SEGMENTS
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import copy


@internal
def may_send_in_place(e, job, request, address):
    """Whether the data of a request are sent from where they are. address: its abi.ADDRESS as it was posted.

    (A node of a ring has the one before it below.)
    """
    alone = job.has_parent and job.node_mask == ZERO and job.rank_mask & (job.rank_mask - ONE) == ZERO
    if not alone or request.poison or request.inline or request.source_process:
        return False
    if travels_wide(e, job, request.op, request.dtype, request.contributors):
        return False
    return not overwrites_own_data(request, address)


@internal
def overwrites_own_data(request, address):
    """Whether results of a request are written over data of others of its segments.

    Addresses are the program's: what it has registered twice lies at two of the device.
    """
    wanted = range_bytes(request.length, request.block, address.destination_first, address.destination_blocks)
    brought = range_bytes(request.length, request.block, address.source_first, address.source_blocks)
    if wanted == ZERO or brought == ZERO:
        return False
    if address.destination + wanted <= address.source or address.source + brought <= address.destination:
        return False
    behind = U64(address.destination_first) * request.block - U64(address.source_first) * request.block
    return address.destination - address.source != behind


@internal
def reference_data(e, slot, address, length):
    """The data of the one contributor of a slot lie at `address`, and stay there."""
    slot.flags |= HAS_DATA
    slot.length = length
    slot.zero_copy_address = address
    count(e, SEGMENTS)


@internal
def copy_referenced_data(e, job, slot):
    """Copy what a slot was lent: what is sent again is the same each time, whatever the program does."""
    if slot.zero_copy_address != ZERO:
        copy(payload_of(e, job, slot.position), slot.zero_copy_address, U64(slot.length))
        slot.zero_copy_address = ZERO


@internal
def data_address(e, job, slot):
    """Address of the data of a slot: in its buffer, or where they were lent."""
    return U64(slot.zero_copy_address) if slot.zero_copy_address != ZERO else payload_of(e, job, slot.position)
