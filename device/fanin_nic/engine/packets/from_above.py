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
from fanin_nic.engine.slots.arithmetic import CLASS_ALL
from fanin_nic.engine.slots.contribution import AHEAD, contributor_class
from fanin_nic.native.compiled import internal
from fanin_wire.fields import WAIT_BODY, Opcode

RESULT, NEED = int(Opcode.RESULT), int(Opcode.NEED)
CONFIG_ACK, LEAVE_ACK = int(Opcode.CONFIG_ACK), int(Opcode.LEAVE_ACK)
ABORT, NAK = int(Opcode.ABORT), int(Opcode.NAK)
DROP_LENGTH, DROP_NOT_ADDRESSED = int(Counter.DROP_LENGTH), int(Counter.DROP_NOT_ADDRESSED)
DROP_UNEXPECTED = int(Counter.DROP_UNEXPECTED)
WAIT_SIZE = WAIT_BODY.size


@internal
def dispatch_parent(e, job, header, payload):
    job.heard = e.now
    if header.opcode == CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == LEAVE_ACK:
        leave.on_leave_ack(e, job, job.parent_address)
    elif header.opcode == ABORT:
        on_remote_abort(e, job, header, scope_from_above(job, header))
    elif header.opcode == NAK:
        on_remote_restart(e, job, scope_above(job), U64(job.parent_mask), job.parent_address)
    elif is_acceptable(e, job, header):
        dispatch_position(e, job, header, payload)
        if job.rank_left | job.node_left != ZERO:
            leave.progress_leave(e, job)  # this device's LEAVE may only have waited for this RESULT


@internal
def dispatch_position(e, job, header, payload):
    """Handle a packet about a position of a running job."""
    if header.opcode == RESULT and header.node_bitmap & bit_of(job.parent_bit) == ZERO:
        count(e, DROP_NOT_ADDRESSED)
    elif header.opcode == RESULT and contributor_class(header.flags) > CLASS_ALL:
        count(e, DROP_UNEXPECTED)
    elif header.opcode == RESULT and header.flags & AHEAD:
        early_result.on_result_ahead(e, job, header, payload)
    elif header.opcode == RESULT:
        tree.on_result(e, job, header, payload)
    elif header.opcode == NEED:
        tree.on_need(e, job, header)
    elif header.length >= WAIT_SIZE:
        tree.on_wait(e, job, header, payload)
    else:
        count(e, DROP_LENGTH)


@internal
def dispatch_next(e, job, header, payload):
    note_ring_neighbour(e, job, job.next_address)
    if header.opcode == CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == LEAVE_ACK:
        leave.on_leave_ack(e, job, job.next_address)
    elif header.opcode == ABORT:
        on_remote_abort(e, job, header, scope_from_peer(job, header))
    elif header.opcode == NAK:
        on_remote_restart(e, job, scope_below(job), next_node(job), job.next_address)
    elif is_acceptable(e, job, header):
        ring.on_ack(e, job, header)
        leave.progress_leave(e, job)  # this node's LEAVE may only have waited for this ACK
