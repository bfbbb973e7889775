"""A schedule as text: its plan, and every event of its trace."""

from collections.abc import Iterator

import numpy as np

from fanin_sim.kernel.tables import PacketFate
from fanin_sim.rdma.codes import EventKind, FaultKind, RequestKind, Violation, WrongRequest
from fanin_sim.rdma.event_loop import START
from fanin_sim.rdma.plan import Plan
from fanin_sim.rdma.tables import REQUESTS
from fanin_sim.rdma.world import TOPOLOGIES
from fanin_wire.rocev2 import OPCODES
from fanin_wire.verbs import CompletionStatus


def heading(plan: Plan) -> str:
    """A line with the topology and the plan."""
    return (
        f"seed {plan.seed}: {TOPOLOGIES[plan.topology].name}, {plan.profile.value}; MTU {plan.mtu}, "
        f"{plan.reads} reads under way, time-out {plan.timeout / 1e6:.2f} ms"
        + (", shared receive queues" if plan.is_shared else "")
    )


def lines_of(trace: np.ndarray) -> Iterator[str]:
    """A line for each event."""
    for line in trace:
        kind = EventKind(int(line["kind"]))
        yield f"{(int(line['time']) - START) / 1e9:12.6f}  {_WRITERS[kind](line)}"


def _sent(line: np.void) -> str:
    opcode = OPCODES.get(int(line["opcode"]))
    name = opcode.name if opcode else f"opcode {line['opcode']}"
    fate = PacketFate(int(line["fate"]))
    when = f" at {(int(line['value']) - START) / 1e9:.6f}" if line["value"] else ""
    return f"device {line['source']} -> {line['target']}: {name} {line['position']} {fate.name.lower()}{when}"


def _post(line: np.void) -> str:
    number = f"side {line['source']}: posts request {line['position']}"
    if line["target"]:
        return f"side {line['source']}: posts receive request {line['position']} of {line['value']} bytes"
    wrong = WrongRequest(int(line["fate"]))
    kind = RequestKind(int(line["opcode"])).name
    return f"{number}: {kind} of {line['value']} bytes" + (f", wrong: {wrong.name}" if wrong else "")


def _completion(line: np.void) -> str:
    number = int(line["position"])
    what = "receive request" if line["target"] else "request"
    status = int(line["value"])
    name = CompletionStatus(status).name if status in list(CompletionStatus) else str(status)
    return f"side {line['source']}: {what} {number % REQUESTS} of generation {number // REQUESTS} ends: {name}"


_WRITERS = {
    EventKind.SENT: _sent,
    EventKind.POST: _post,
    EventKind.COMPLETION: _completion,
    EventKind.TIMER: lambda line: f"device {line['source']}: a timer expires",
    EventKind.RESTARTED: lambda line: f"device {line['source']} starts anew",
    EventKind.GIVEN_UP: lambda line: f"connection {line['source']}: its programs end it",
    EventKind.CONNECTED: lambda line: f"connection {line['source']} is made, queue pair {line['value']}",
    EventKind.FAULT_APPLIED: lambda line: f"fault: {FaultKind(int(line['fate'])).name} at {line['source']}",
    EventKind.VIOLATION_FOUND: lambda line: f"{Violation(int(line['value'])).name} at {line['source']}",
}
