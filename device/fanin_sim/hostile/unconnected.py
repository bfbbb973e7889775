"""Packets of an unreliable connection: a message arrives whole, or not at all (section 9.8.2)."""

import numpy as np

from fanin_nic.transport.records.tables import Receiving
from fanin_sim.hostile import messages
from fanin_sim.hostile.expectation import Expectation
from fanin_sim.hostile.memory import Memory
from fanin_sim.hostile.packets import Packet
from fanin_sim.hostile.queues import Queue
from fanin_wire.rocev2 import Operation
from fanin_wire.verbs import Access

COUNTERS = {
    messages.ACCEPTED: "",
    messages.NOT_READY: "drop_no_receive",
    messages.INVALID: "drop_length",
    messages.ACCESS: "drop_protection",
    messages.OPERATION: "drop_protection",
}


def expect(queue: Queue, row: np.void, memory: Memory, packet: Packet) -> Expectation:
    is_send = packet.opcode.operation == Operation.SEND
    row = row.copy()
    if packet.opcode.part in messages.BEGIN:
        row["receiving"] = Receiving.NOTHING  # the message before is forgotten
    elif packet.values["psn"] != row["expected"] or row["receiving"] != (
        Receiving.SEND if is_send else Receiving.WRITE
    ):
        queue.give_back()
        return Expectation(("drop_opcode_sequence",))
    expectation = Expectation()
    if is_send:
        verdict = messages.send(queue, row, memory, packet, expectation.completions)
    elif not int(row["access"]) & Access.REMOTE_WRITE:
        verdict = messages.ACCESS
    else:
        verdict = messages.write(queue, row, memory, packet, expectation.completions)
    if not is_send or verdict != messages.ACCEPTED or packet.opcode.part in messages.END:
        queue.give_back()
    expectation.reasons = (COUNTERS[verdict],)
    return expectation
