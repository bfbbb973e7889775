"""The trace of a schedule: one line for each event, kept only on request."""

from fanin_sim.jit import internal
from fanin_sim.kernel.tables import NOTHING, trace_row


@internal
def add_line(w, kind, source, target, opcode, position, fate, value, ordinal):
    """Adds a line. A full table overwrites its oldest line."""
    if w.trace_room == 0:
        return
    line = trace_row(w.trace, w.trace_count % w.trace_room)
    line.time = w.now
    line.kind = kind
    line.source = source
    line.target = target
    line.opcode = opcode
    line.position = position
    line.fate = fate
    line.value = value
    line.ordinal = ordinal
    w.trace_count += 1


@internal
def report_violation(w, violation, location, detail):
    """Records the first violation."""
    if w.violation == NOTHING:
        w.violation = violation
        w.location = location
        w.detail = detail
