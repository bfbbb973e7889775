"""Contributions to a segment, of local ranks and of other devices."""

from numba import int64, uint64

from fanin_nic.engine import slots
from fanin_nic.engine.jobs.lease import all_nodes, ring_start
from fanin_nic.engine.jobs.missing import scope_below
from fanin_nic.engine.records.accessors import (
    ONE,
    REQUEST_SCALARS,
    U64,
    abort,
    bit_of,
    brings,
    job_at,
    proceed,
    queue_at,
    segment_length,
    slot_at,
    slot_index,
    wants,
)
from fanin_nic.engine.records.tables import ENGINE, SlotState
from fanin_nic.engine.records.trace import trace
from fanin_nic.engine.segments.complete import deliver_ahead, deliver_ahead_to, may_go_ahead
from fanin_nic.engine.slots import (
    WIDE_ITEM,
    add_data,
    contributor_class,
    describe,
    is_one_with_data,
    itemsize,
    matches,
    order_of_rank,
    poison,
    reference_data,
    travels_wide,
)
from fanin_nic.native.compiled import internal, internal_for
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import Route, Status
from fanin_wire.fields import CLASS_SHIFT, Flag
from fanin_wire.tap import Step


@internal_for(ENGINE, int64, REQUEST_SCALARS, int64, int64, uint64)
def contribute_rank(e, queue_index, request, number, entry, address):
    """Segment `number` of a request from the rank of address list entry `entry`; its data lie at `address`."""
    queue = queue_at(e, queue_index)
    job = job_at(e, queue.job - 1)
    rank = rank_of_entry(queue, entry)
    sid = U64(request.sid + number) & U64(0xFFFFFFFF)
    slot = open_slot(e, job, request, number)
    if not matches(slot, request.op, request.dtype, request.contributors << CLASS_SHIFT, request.mid, sid):
        abort(e, job, Status.OP_MISMATCH, 0, bit_of(rank))
        return
    if request.poison:
        poison(slot, request.poison)
    elif brings(request, entry, sid):
        length = segment_length(request, sid)
        order = slot.folded if request.source_process else order_of_rank(job, rank)  # a process is read in turn
        goes_ahead = may_go_ahead(job, request, length)
        if request.zero_copy and not goes_ahead and not slot.flags & Flag.HAS_DATA:
            reference_data(e, slot, address, length)
        elif not add_data(e, job, slot, address, length, False, order):
            abort(e, job, Status.OP_MISMATCH, 0, bit_of(rank))
            return
        if goes_ahead:
            slot.flags |= Flag.AHEAD
    if wants(request, entry, sid):
        slot.flags |= Flag.WANTS_RESULT
    slot.contributions += ONE
    slot.rank_missing &= ~bit_of(rank)
    trace(e, job, slot, Step.RANK_IN, rank)
    if is_one_with_data(slot) and not give_ahead(e, job, slot, queue_index, request, brings(request, entry, sid)):
        return
    proceed(e, job, slot)


@internal
def rank_of_entry(queue, entry):
    """Bit of the rank of an entry of the address list."""
    bitmap = queue.rank_bitmap
    for _ in range(entry):
        bitmap &= bitmap - ONE
    return lowest_bit(bitmap)


@internal
def open_slot(e, job, request, number):
    """The slot of segment `number` of a request, open for it."""
    position = U64(request.first + number) & U64(0xFFFFFFFF)
    slot = slot_at(e, slot_index(job, position))
    if slot.position != position or slot.state != SlotState.OPEN:
        sid = U64(request.sid + number) & U64(0xFFFFFFFF)
        claim_for_node(e, job, slot, position, sid)
        describe(slot, request.op, request.dtype, request.contributors << CLASS_SHIFT, request.mid, sid)
    return slot


@internal
def claim_for_node(e, job, slot, position, sid):
    """Claim a slot for the ranks of this node and, in a ring, for the partial of the previous node."""
    slots.claim(e, job, slot, position)
    slot.rank_missing = job.rank_mask
    if job.route == Route.RING:
        if ring_start(job, sid) == U64(job.node_index):
            slot.nodes = all_nodes(job)
        else:
            slot.node_missing = job.node_mask


@internal
def give_ahead(e, job, slot, queue_index, request, has_brought):
    """The rank that brought the data of a ONE position gives them to all, another takes its own. False: job ended."""
    if has_brought:
        return deliver_ahead(e, job, slot, queue_index, request.count == 1 and U64(slot.length) == request.length)
    return deliver_ahead_to(e, job, slot, queue_index)


@internal
def take_packet(e, job, slot, header, payload, order):
    """Enter the contribution of another device into a slot; order: its place in the fold. False: it does not match the
    others, and the job has ended."""
    fits = matches(slot, header.op, header.dtype, header.flags, header.mid, header.sid)
    if fits and header.status:
        poison(slot, header.status)
    elif fits and header.flags & Flag.HAS_DATA:
        wide = header.flags & Flag.WIDE != 0
        fits = wide == (travels_wide(e, job, slot.op, slot.dtype, contributor_class(slot.flags)) != 0)
        fits = fits and add_data(e, job, slot, payload, message_bytes(e, header, wide), wide, order)
        slot.flags |= header.flags & Flag.AHEAD
    if fits:
        slot.contributions += U64(header.contributions)
    else:
        abort(e, job, Status.OP_MISMATCH, scope_below(job), bit_of(header.source))
    return fits


@internal
def message_bytes(e, header, wide):
    """Bytes of the message in a packet's payload, in the type of the message."""
    return U64(header.length) // WIDE_ITEM * itemsize(e, header.dtype) if wide else U64(header.length)


@internal
def note_result(slot, header):
    """Enter the header of a RESULT into its slot, which keeps the data of a ONE position."""
    slot.status = header.status
    slot.contributions = U64(header.contributions)
    if header.flags & Flag.HAS_DATA:
        slot.length = header.length
    if not is_one_with_data(slot):
        slot.flags &= ~(Flag.HAS_DATA | Flag.WIDE)
    slot.flags |= header.flags & Flag.HAS_DATA
