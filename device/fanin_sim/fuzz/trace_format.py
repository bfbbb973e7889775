"""Formats a schedule as text: its plan, its faults, and every event of its trace."""

from collections.abc import Iterator

import numpy as np

from fanin_sim.fuzz.codes import EventKind, FaultKind, Violation
from fanin_sim.fuzz.event_loop import START
from fanin_sim.fuzz.plan import ALL_PEERS, Fault, Plan
from fanin_sim.fuzz.workloads import WORKLOADS
from fanin_sim.fuzz.world import World
from fanin_sim.kernel.tables import PacketFate
from fanin_wire.abi import MessageType, Status
from fanin_wire.fields import Opcode

DOWNTIME_SHIFT, PERFORMED = 8, 255  # fields of the value of a crash
OPCODES = {int(opcode) & 15: opcode.name for opcode in Opcode}


def seconds(ns: int) -> str:
    """A time in seconds since the start of the schedule."""
    return f"{(ns - START) / 1e9:.6f}"


class TraceFormatter:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.workload = plan, WORKLOADS[plan.workload]
        self.names = World.names_of(self.workload)

    def heading(self) -> str:
        """A line with the workload and the plan."""
        plan = self.plan
        return (
            f"seed {plan.seed}: {self.workload.name}, {plan.profile.value}; at most {plan.slots} slots, "
            f"first position {plan.first_position}"
        )

    def fault(self, fault: Fault) -> str:
        kind = FaultKind(fault.kind)
        name = kind.name.replace("_", " ")
        if kind in (FaultKind.LATE_RANK, FaultKind.READ_FAILURE):
            what = "step" if kind == FaultKind.LATE_RANK else "DMA read"
            return f"{name}: rank {fault.source}, {what} {fault.ordinal}"
        if kind >= FaultKind.PARTITION:
            return f"{name}: {self._planned(kind, fault)}"
        link = f"{self.names[fault.source]} -> {self.names[fault.target]}"
        return f"{name}: {link}, {OPCODES[fault.opcode]} number {fault.ordinal}"

    def _planned(self, kind: FaultKind, fault: Fault) -> str:
        device, when = self.names[fault.source], f"at event {fault.ordinal} of {self.names[fault.source]}"
        if kind == FaultKind.PARTITION:
            others = "all others" if fault.target == ALL_PEERS else self.names[fault.target]
            return f"{device} from {others} for {fault.value / 1e6:.3f} ms, {when}"
        if kind == FaultKind.FREEZE:
            return f"{device} for {fault.value / 1e6:.3f} ms, {when}"
        if kind in (FaultKind.RANK_CRASH, FaultKind.EARLY_LEAVE):
            return f"rank {fault.target}, {when}"
        performed = fault.value & PERFORMED
        extent = "after all its actions" if performed == PERFORMED else f"after {performed} of its actions"
        back = f", restarts after {(fault.value >> DOWNTIME_SHIFT) / 1e6:.3f} ms" if kind == FaultKind.RESTART else ""
        return f"{device}, {when}, {extent}{back}"

    def lines(self, trace: np.ndarray) -> Iterator[str]:
        """A line for every event: time in seconds, device or rank, event."""
        for line in trace:
            yield f"{seconds(int(line['time'])):>12}  {self._event(line)}"

    def _event(self, line: np.void) -> str:
        kind, value, position = EventKind(int(line["kind"])), int(line["value"]), int(line["position"])
        if kind in (EventKind.SENT, EventKind.PACKET):
            return self._packet(line, kind)
        if kind == EventKind.VIOLATION_FOUND:
            return f"VIOLATION: {Violation(value).name}"
        if kind == EventKind.FAULT_APPLIED:
            kind_of_fault = FaultKind(int(line["opcode"]))
            fault = Fault(kind_of_fault, int(line["source"]), int(line["target"]), 0, int(line["ordinal"]), value)
            return f"{kind_of_fault.name.replace('_', ' ')}: {self._planned(kind_of_fault, fault)}"
        if kind == EventKind.NEXT_INCARNATION:
            return f"incarnation {value + 1}: all ranks have left; they form the job again"
        device = self.names[int(line["source"])]
        if kind in (EventKind.TIMER, EventKind.REBOOT):
            return f"{device}: {'timer' if kind == EventKind.TIMER else 'restarts'}"
        rank = f"{device}: rank {int(line['target'])}"
        words = {
            EventKind.JOIN: "joins",
            EventKind.LEAVE: "leaves",
            EventKind.POST: f"posts message {position}",
            EventKind.COMPLETION: f"message {position} ends with {_status(value)}{_named(line)}",
            EventKind.READ: f"DMA read of {value} positions from position {position} begins",
            EventKind.READ_DONE: f"DMA read from position {position} ends with {_status(value)}",
        }
        if kind == EventKind.ANSWER:
            return f"{rank} gets the answer {_status(value)} to its {MessageType(int(line['opcode'])).name}"
        return f"{rank} {words[kind]}"

    def _packet(self, line: np.void, kind: EventKind) -> str:
        names = self.names[int(line["source"])], self.names[int(line["target"])]
        what = f"{OPCODES[int(line['opcode'])]} {int(line['position'])}"
        if kind == EventKind.PACKET:
            return f"{names[1]} <- {names[0]}: {what}{', dropped: the device is down' if line['fate'] else ''}"
        fate = PacketFate(int(line["fate"]))
        end = f"arrives at {seconds(int(line['value']))}" if line["value"] else ""
        if fate != PacketFate.ARRIVES:
            end = f"{fate.name.replace('_', ' ')} {end}".rstrip()
        return f"{names[0]} -> {names[1]}: {what} (number {int(line['ordinal'])}) {end}"


def _named(line: np.void) -> str:
    named = int(line["ordinal"])
    return f", missing members {named:#b} of scope {int(line['fate'])}" if named else ""


def _status(value: int) -> str:
    names = {int(status): status.name for status in Status}
    return names.get(value, str(value))
