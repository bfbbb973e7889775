"""The trace of a schedule: what happened, line by line. It is kept only when somebody wants to read it."""

from __future__ import annotations

from fanin_sim.fuzz.codes import Violation
from fanin_sim.fuzz.tables import trace_row
from fanin_sim.jit import internal

NOTHING = int(Violation.NOTHING)


@internal
def add_line(w, kind, source, target, opcode, position, fate, value, ordinal):
    """One line. When there is no more room, the oldest are written over."""
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
    """Something has happened that must not. The first counts."""
    if w.violation == NOTHING:
        w.violation = violation
        w.location = location
        w.detail = detail
