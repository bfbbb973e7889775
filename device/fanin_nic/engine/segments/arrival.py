"""Contributions and results of other devices, in tree and ring: how they enter a slot."""

from fanin_nic.engine.jobs.missing_scope import scope_below
from fanin_nic.engine.records.accessors import U64, bit_of
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.slots.arithmetic import WIDE_ITEM, itemsize, travels_wide
from fanin_nic.engine.slots.contribution import add_data, contributor_class, is_one_with_data, matches, poison
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Status
from fanin_wire.fields import Flag


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
def note_result(slot, header):
    """Enter the header of a RESULT into its slot, which keeps the data of a ONE position."""
    slot.status = header.status
    slot.contributions = U64(header.contributions)
    if header.flags & Flag.HAS_DATA:
        slot.length = header.length
    if not is_one_with_data(slot):
        slot.flags &= ~(Flag.HAS_DATA | Flag.WIDE)
    slot.flags |= header.flags & Flag.HAS_DATA


@internal
def message_bytes(e, header, wide):
    """Bytes of the message in a packet's payload, in the type of the message."""
    return U64(header.length) // WIDE_ITEM * itemsize(e, header.dtype) if wide else U64(header.length)
