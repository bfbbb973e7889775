"""QUERY: the progress of a message, answered at once, ahead of completions of requests (step S6)."""

from fanin_nic.engine.output.action_table import append
from fanin_nic.engine.packets.tree import probe_above
from fanin_nic.engine.records.accessors import (
    U64,
    action_at,
    distance,
    job_at,
    queue_at,
    request_at,
    request_index,
    slot_at,
    slot_index,
)
from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.engine.records.geometry import bytes_of
from fanin_nic.engine.records.tables import JobState
from fanin_nic.engine.segments.missing_members import first_begun_position, missing_for_position
from fanin_nic.engine.segments.rto import awaits_answer, back_off
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Status, WqeOpcode


@internal
def find_message(e, queue_index, mid):
    """1 + counter of the outstanding request of a message; 0 if none."""
    queue = queue_at(e, queue_index)
    for offset in range(U64(queue.tail - queue.head) & U64(0xFFFFFFFF)):
        if request_at(e, request_index(e, queue_index, queue.head + offset)).mid == mid:
            return U64((queue.head + offset) & 0xFFFFFFFF) + U64(1)
    return U64(0)


@internal
def ask_above(e, job, slot):
    """No missing member is known: PROBE the device above, so that the next query can name one."""
    if awaits_answer(slot) and not slot.unacked and slot.retries == 0 and job.state == JobState.ACTIVE:
        probe_above(e, job, slot)
        back_off(e, job, slot)


@internal
def answer_query(e, queue_index, wqe):
    """Append one completion: PENDING with positions done and members missing; SUCCESS for a message not in flight."""
    queue = queue_at(e, queue_index)
    found = find_message(e, queue_index, wqe.mid)
    action = action_at(e, append(e, ActionKind.COMPLETE))
    action.queue = queue_index
    action.count = queue.qp
    action.opcode = WqeOpcode.QUERY
    action.wr_id = wqe.wr_id
    action.mid = wqe.mid
    action.status = Status.SUCCESS
    if queue.job:
        action.jid = job_at(e, queue.job - 1).jid
    if found and queue.job:
        request = request_at(e, request_index(e, queue_index, found - U64(1)))
        action.status = Status.PENDING
        action.position = request.done
        action.byte_length = bytes_of(request, request.done)
        job = job_at(e, queue.job - 1)
        begun = distance(job.base, request.first) > 0
        position = job.base if begun else request.first
        scope, missing = missing_for_position(e, job, position)
        if missing == U64(0):
            ask_above(e, job, slot_at(e, slot_index(job, first_begun_position(e, job, position))))
        action.missing_kind = scope
        action.missing = missing
