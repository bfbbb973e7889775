"""Data ahead of the result: a short message of one rank goes to the devices below at once (SPEC.md, 7.5). Record 0058:
why only short messages, what it gains, and the rules that keep it safe."""

from fanin_nic.engine.output.encapsulate import copy_result, send_result
from fanin_nic.engine.output.multicast import serves_by_group
from fanin_nic.engine.records.accessors import ONE, U64, ZERO, bit_of, child_at, child_index, header_at
from fanin_nic.engine.records.tables import Ahead
from fanin_nic.engine.slots.contribution import is_one_with_data
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import lowest_bit
from fanin_wire.abi import ContributorClass, Route
from fanin_wire.fields import Flag
from fanin_wire.limits import MAX_AHEAD as LONGEST

MAX_AHEAD = U64(LONGEST)


@internal
def may_go_ahead(job, request, length):
    """Whether the `length` bytes of a segment go ahead: a whole message of one rank, short enough to come unasked."""
    if job.route == Route.LOCAL or request.contributors != ContributorClass.ONE:
        return False
    return request.count == 1 and U64(length) == request.length and request.length <= MAX_AHEAD


@internal
def goes_ahead_now(job, slot):
    """Whether a slot holds data that are due to the devices below."""
    if job.route == Route.RING or job.node_mask == ZERO or slot.ahead & Ahead.SENT or slot.status:
        return False
    return is_one_with_data(slot) and slot.flags & Flag.AHEAD != 0


@internal
def send_ahead(e, job, slot):
    """Send the data of a slot to the devices below that may lack them: those that want them, and those that have not
    contributed. Nothing acknowledges or repeats these packets."""
    below = U64(slot.wants) | U64(slot.node_missing)
    if below == ZERO:
        return
    slot.ahead |= Ahead.SENT
    first = lowest_bit(below)
    if serves_by_group(e, job, below):
        header_at(e, send_result(e, job, slot, e.group, first, below, below)).flags |= Flag.AHEAD
        return
    index = send_result(e, job, slot, child_at(e, child_index(job, first)).address, first, bit_of(first), below)
    header_at(e, index).flags |= Flag.AHEAD
    below &= below - ONE
    while below:
        bit = lowest_bit(below)
        below &= below - ONE
        copy_result(e, job, index, child_at(e, child_index(job, bit)).address, bit, bit_of(bit))
