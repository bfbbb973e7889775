"""Packets from the device above, and answers of the next node of a ring."""

from __future__ import annotations

from fanin_nic.engine.control import leave, membership
from fanin_nic.engine.control.blame import kind_below, kind_from_above, kind_from_others, kind_parent
from fanin_nic.engine.control.ending import next_node
from fanin_nic.engine.packet import ring, tree
from fanin_nic.engine.packet.elsewhere import abort_elsewhere, restarted
from fanin_nic.engine.packet.plausible import may_take
from fanin_nic.engine.packet.sender import hear_beside
from fanin_nic.engine.state import U64, ZERO, bit_of, count
from fanin_nic.engine.tables import Counter
from fanin_nic.native.compiled import internal
from fanin_wire.fields import WAIT_BODY, Opcode

RESULT, NEED = int(Opcode.RESULT), int(Opcode.NEED)
CONFIG_ACK, LEAVE_ACK = int(Opcode.CONFIG_ACK), int(Opcode.LEAVE_ACK)
ABORT, NAK = int(Opcode.ABORT), int(Opcode.NAK)
DROP_LENGTH, DROP_SENDER = int(Counter.DROP_LENGTH), int(Counter.DROP_SENDER)
WAIT_SIZE = WAIT_BODY.size


@internal
def from_the_parent(e, job, header, payload):
    """From the device above."""
    job.heard = e.now
    if header.opcode == CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == LEAVE_ACK:
        leave.on_leave_ack(e, job, job.parent_address)
    elif header.opcode == ABORT:
        abort_elsewhere(e, job, header, kind_from_above(job, header))
    elif header.opcode == NAK:
        restarted(e, job, kind_parent(job), U64(job.parent_mask))
    elif may_take(e, job, header):
        answer_from_above(e, job, header, payload)


@internal
def answer_from_above(e, job, header, payload):
    """From the device above, about a position of a running job."""
    if header.opcode == RESULT and header.node_bitmap & bit_of(job.parent_bit) == ZERO:
        count(e, DROP_SENDER)
    elif header.opcode == RESULT:
        tree.on_result(e, job, header, payload)
    elif header.opcode == NEED:
        tree.on_need(e, job, header)
    elif header.length >= WAIT_SIZE:
        tree.on_wait(e, job, header, payload)
    else:
        count(e, DROP_LENGTH)


@internal
def from_the_next(e, job, header, payload):
    """From the next node of a ring."""
    hear_beside(e, job, job.next_address)
    if header.opcode == CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == LEAVE_ACK:
        leave.on_leave_ack(e, job, job.next_address)
    elif header.opcode == ABORT:
        abort_elsewhere(e, job, header, kind_from_others(job, header))
    elif header.opcode == NAK:
        restarted(e, job, kind_below(job), next_node(job))
    elif may_take(e, job, header):
        ring.on_ack(e, job, header)
        leave.progress_leave(e, job)  # ranks that have left may only have waited for this
