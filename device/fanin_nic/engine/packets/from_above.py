"""Packets from the device above, and answers of the next node of a ring."""

from fanin_nic.engine.jobs import leave, membership
from fanin_nic.engine.jobs.missing_scope import scope_above, scope_below, scope_from_above, scope_from_peer
from fanin_nic.engine.jobs.ring_order import next_node
from fanin_nic.engine.packets import early_result, ring, tree
from fanin_nic.engine.packets.remote_abort import on_remote_abort, on_remote_restart
from fanin_nic.engine.packets.sender import note_ring_neighbour
from fanin_nic.engine.packets.validate import is_acceptable
from fanin_nic.engine.records.accessors import U64, ZERO, bit_of, count
from fanin_nic.engine.records.tables import Counter
from fanin_nic.engine.slots.contribution import contributor_class
from fanin_nic.native.compiled import internal
from fanin_wire.abi import ContributorClass
from fanin_wire.fields import WAIT_BODY, Flag, Opcode

WAIT_SIZE = WAIT_BODY.size


@internal
def dispatch_parent(e, job, header, payload):
    job.heard = e.now
    if header.opcode == Opcode.CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == Opcode.LEAVE_ACK:
        leave.on_leave_ack(e, job, job.parent_address)
    elif header.opcode == Opcode.ABORT:
        on_remote_abort(e, job, header, scope_from_above(job, header))
    elif header.opcode == Opcode.NAK:
        on_remote_restart(e, job, scope_above(job), U64(job.parent_mask), job.parent_address)
    elif is_acceptable(e, job, header):
        dispatch_position(e, job, header, payload)
        if job.rank_left | job.node_left != ZERO:
            leave.progress_leave(e, job)  # this device's LEAVE may only have waited for this RESULT


@internal
def dispatch_position(e, job, header, payload):
    """Handle a packet about a position of a running job."""
    if header.opcode == Opcode.RESULT and header.node_bitmap & bit_of(job.parent_bit) == ZERO:
        count(e, Counter.DROP_NOT_ADDRESSED)
    elif header.opcode == Opcode.RESULT and contributor_class(header.flags) > ContributorClass.ALL:
        count(e, Counter.DROP_UNEXPECTED)
    elif header.opcode == Opcode.RESULT and header.flags & Flag.AHEAD:
        early_result.on_result_ahead(e, job, header, payload)
    elif header.opcode == Opcode.RESULT:
        tree.on_result(e, job, header, payload)
    elif header.opcode == Opcode.NEED:
        tree.on_need(e, job, header)
    elif header.length >= WAIT_SIZE:
        tree.on_wait(e, job, header, payload)
    else:
        count(e, Counter.DROP_LENGTH)


@internal
def dispatch_next(e, job, header, payload):
    note_ring_neighbour(e, job, job.next_address)
    if header.opcode == Opcode.CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == Opcode.LEAVE_ACK:
        leave.on_leave_ack(e, job, job.next_address)
    elif header.opcode == Opcode.ABORT:
        on_remote_abort(e, job, header, scope_from_peer(job, header))
    elif header.opcode == Opcode.NAK:
        on_remote_restart(e, job, scope_below(job), next_node(job), job.next_address)
    elif is_acceptable(e, job, header):
        ring.on_ack(e, job, header)
        leave.progress_leave(e, job)  # this node's LEAVE may only have waited for this ACK
