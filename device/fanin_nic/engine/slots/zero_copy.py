"""Zero copy: the data of the only rank of a NIC are sent from the rank's memory.

No other data are added here, and the rank must not change them until its request is complete. Lost data are read once
more, and then copied for good. So no result of the request may overwrite data that may be sent again: results must go
to where their own data are, or to memory apart from all data. If the memory of a request is deregistered, its job ends.
Record 0024 has the three rules that keep this safe.
"""

from fanin_nic.engine.records.accessors import ONE, U64, ZERO, count, payload_of
from fanin_nic.engine.records.geometry import range_bytes
from fanin_nic.engine.records.tables import Counter
from fanin_nic.engine.slots.arithmetic import travels_wide
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import copy
from fanin_wire.fields import Flag


@internal
def may_send_in_place(e, job, request, address):
    """Whether a request's data are sent from where they are. address: its abi.ADDRESS as posted. A node of a ring has
    the previous node below it, so it is excluded."""
    alone = job.has_parent and job.node_mask == ZERO and job.rank_mask & (job.rank_mask - ONE) == ZERO
    if not alone or request.poison or request.inline or request.source_process:
        return False
    if travels_wide(e, job, request.op, request.dtype, request.contributors):
        return False
    return not overwrites_own_data(request, address)


@internal
def overwrites_own_data(request, address):
    """Whether results of a request overwrite data of its other segments. Addresses are those of the program, since
    memory registered twice has two device addresses."""
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
    """Let a slot refer to the data of its only contributor."""
    slot.flags |= Flag.HAS_DATA
    slot.length = length
    slot.zero_copy_address = address
    count(e, Counter.SEGMENTS)


@internal
def copy_referenced_data(e, job, slot):
    """So that all further packets carry the same data."""
    if slot.zero_copy_address != ZERO:
        copy(payload_of(e, job, slot.position), slot.zero_copy_address, U64(slot.length))
        slot.zero_copy_address = ZERO


@internal
def data_address(e, job, slot):
    """Address of a slot's data: in its buffer, or in the rank's memory."""
    return U64(slot.zero_copy_address) if slot.zero_copy_address != ZERO else payload_of(e, job, slot.position)
