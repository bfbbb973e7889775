"""Packets from a device below, or from the previous node of a ring."""

from fanin_nic.engine.jobs import leave
from fanin_nic.engine.jobs.missing_scope import scope_below, scope_from_peer
from fanin_nic.engine.packets import query, ring, tree
from fanin_nic.engine.packets.remote_abort import on_remote_abort, on_remote_restart
from fanin_nic.engine.packets.validate import is_acceptable, is_computable
from fanin_nic.engine.records.accessors import ZERO, bit_of, count
from fanin_nic.engine.records.tables import Counter
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Route
from fanin_wire.fields import Opcode


@internal
def dispatch_below(e, job, header, payload, source):
    if header.opcode == Opcode.LEAVE:
        leave.on_leave(e, job, header, source)
    elif header.opcode == Opcode.ABORT:
        on_remote_abort(e, job, header, scope_from_peer(job, header))
        leave.progress_leave(e, job)
    elif header.opcode == Opcode.NAK:
        if job.route == Route.RING or job.node_left & bit_of(header.source) != ZERO:
            count(e, Counter.DROP_UNEXPECTED)
            return
        on_remote_restart(e, job, scope_below(job), bit_of(header.source), source)
        leave.progress_leave(e, job)
    elif header.opcode == Opcode.QUERY:
        query.on_query(e, job, header, source)
    elif not is_acceptable(e, job, header):
        return
    elif not is_computable(e, header):
        count(e, Counter.DROP_UNEXPECTED)
    elif job.route == Route.RING:
        dispatch_previous(e, job, header, payload)
    elif header.opcode == Opcode.CONTRIBUTION:
        tree.on_contribution(e, job, header, payload, source)
    elif header.opcode == Opcode.PROBE:
        tree.on_probe(e, job, header, source)
    else:
        count(e, Counter.DROP_UNEXPECTED)


@internal
def dispatch_previous(e, job, header, payload):
    """Handle a packet about a position of a running job."""
    if header.opcode == Opcode.CONTRIBUTION:
        ring.on_contribution(e, job, header, payload)
    elif header.opcode == Opcode.RESULT:
        ring.on_result(e, job, header, payload)
    elif header.opcode == Opcode.PROBE:
        ring.on_probe(e, job, header)
    else:
        count(e, Counter.DROP_UNEXPECTED)
