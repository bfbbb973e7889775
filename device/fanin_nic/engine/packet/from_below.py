"""Packets from a device below, or from the previous node of a ring."""

from __future__ import annotations

from fanin_nic.engine.control import leave
from fanin_nic.engine.control.blame import kind_below, kind_from_others
from fanin_nic.engine.packet import ring, tree
from fanin_nic.engine.packet.elsewhere import abort_elsewhere, restarted
from fanin_nic.engine.packet.plausible import is_computable, may_take
from fanin_nic.engine.state import ZERO, bit_of, count
from fanin_nic.engine.tables import Counter
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Route
from fanin_wire.fields import Opcode

CONTRIBUTION, RESULT, PROBE = int(Opcode.CONTRIBUTION), int(Opcode.RESULT), int(Opcode.PROBE)
LEAVE, ABORT, NAK = int(Opcode.LEAVE), int(Opcode.ABORT), int(Opcode.NAK)
RING = int(Route.RING)
DROP_UNEXPECTED = int(Counter.DROP_UNEXPECTED)


@internal
def up(e, job, header, payload, source):
    """From below, or from the previous node of a ring."""
    if header.opcode == LEAVE:
        leave.on_leave(e, job, header, source)
    elif header.opcode == ABORT:
        abort_elsewhere(e, job, header, kind_from_others(job, header))
        leave.progress_leave(e, job)
    elif header.opcode == NAK:
        if job.route == RING or job.node_left & bit_of(header.source) != ZERO:
            count(e, DROP_UNEXPECTED)
            return
        restarted(e, job, kind_below(job), bit_of(header.source))
        leave.progress_leave(e, job)
    elif not may_take(e, job, header):
        return
    elif not is_computable(e, header):
        count(e, DROP_UNEXPECTED)
    elif job.route == RING:
        up_ring(e, job, header, payload)
    elif header.opcode == CONTRIBUTION:
        tree.on_contribution(e, job, header, payload, source)
    elif header.opcode == PROBE:
        tree.on_probe(e, job, header, source)
    else:
        count(e, DROP_UNEXPECTED)


@internal
def up_ring(e, job, header, payload):
    """From the previous node, about a position of a running job."""
    if header.opcode == CONTRIBUTION:
        ring.on_contribution(e, job, header, payload)
    elif header.opcode == RESULT:
        ring.on_result(e, job, header, payload)
    elif header.opcode == PROBE:
        ring.on_probe(e, job, header)
    else:
        count(e, DROP_UNEXPECTED)
