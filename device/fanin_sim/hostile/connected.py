"""Requests of a reliable connection: the expected one, one too early, a repetition (section 9.7.4)."""

import numpy as np

from fanin_nic.transport.records.tables import Receiving
from fanin_sim.hostile import messages
from fanin_sim.hostile.expectation import Expectation
from fanin_sim.hostile.memory import Memory
from fanin_sim.hostile.packets import Packet
from fanin_sim.hostile.queues import Queue, Read, difference, packets_of
from fanin_wire.rocev2 import ATOMIC_BYTES, MAX_MESSAGE, Operation
from fanin_wire.verbs import MAX_RD_ATOMIC, Access

COUNTERS = {
    messages.ACCEPTED: "",
    messages.NOT_READY: "",
    messages.INVALID: "refused_invalid",
    messages.ACCESS: "refused_access",
    messages.OPERATION: "refused_operation",
}
WORD = 1 << 64


def expect(queue: Queue, row: np.void, memory: Memory, packet: Packet) -> Expectation:
    """The verdict on a request of a connection that takes requests."""
    ahead = difference(packet.values["psn"], int(row["expected"]))
    if ahead > 0:
        return Expectation(("drop_sequence",))
    if ahead < 0:
        return repeated(queue, row, memory, packet, -ahead)
    expectation = Expectation()
    verdict = carry_out(queue, row, memory, packet, expectation.completions)
    expectation.reasons = (COUNTERS[verdict],)
    return expectation


def carry_out(queue: Queue, row: np.void, memory: Memory, packet: Packet, completions: messages.Completions) -> str:
    """The verdict on the expected packet."""
    operation = packet.opcode.operation
    if operation == Operation.SEND:
        return messages.send(queue, row, memory, packet, completions)
    if operation == Operation.WRITE:
        return messages.write(queue, row, memory, packet, completions)
    if row["receiving"] != Receiving.NOTHING or packet.payload or row["response_count"] >= row["most_responses"]:
        return messages.INVALID
    if operation == Operation.READ_REQUEST:
        return read(queue, row, memory, packet)
    return atomic(queue, row, memory, packet)


def read(queue: Queue, row: np.void, memory: Memory, packet: Packet) -> str:
    """The verdict on a READ."""
    length, values = packet.values["dlen"], packet.values
    if not int(row["access"]) & Access.REMOTE_READ or length > MAX_MESSAGE:
        return messages.INVALID
    place = memory.find(values["rkey"], values["va"], length, Access.REMOTE_READ, queue.domain) if length else 0
    if place is None:
        return messages.ACCESS
    queue.reads.append(Read(values["psn"], place, length))
    return messages.ACCEPTED


def atomic(queue: Queue, row: np.void, memory: Memory, packet: Packet) -> str:
    """The verdict on an atomic. Its answer must carry the value that it found."""
    values = packet.values
    if not int(row["access"]) & Access.REMOTE_ATOMIC or values["va"] % ATOMIC_BYTES:
        return messages.INVALID
    place = memory.find(values["rkey"], values["va"], ATOMIC_BYTES, Access.REMOTE_ATOMIC, queue.domain)
    if place is None:
        return messages.ACCESS
    found = int.from_bytes(memory.expected(place, ATOMIC_BYTES), "little")
    queue.originals.pop(values["psn"], None)
    queue.originals[values["psn"]] = found.to_bytes(ATOMIC_BYTES, "big")
    while len(queue.originals) > MAX_RD_ATOMIC:
        queue.originals.pop(next(iter(queue.originals)))
    if packet.opcode.operation == Operation.FETCH_ADD:
        memory.expect(place, ((found + values["swap"]) % WORD).to_bytes(ATOMIC_BYTES, "little"))
    elif found == values["compare"]:
        memory.expect(place, values["swap"].to_bytes(ATOMIC_BYTES, "little"))
    return messages.ACCEPTED


def repeated(queue: Queue, row: np.void, memory: Memory, packet: Packet, behind: int) -> Expectation:
    """A repeated request writes and ends nothing. A READ or atomic is answered again if there is room."""
    values, operation = packet.values, packet.opcode.operation
    if operation in (Operation.SEND, Operation.WRITE):
        return Expectation(("duplicates",))
    if operation != Operation.READ_REQUEST:
        is_known = values["psn"] in queue.originals
        return Expectation(("duplicates", "drop_duplicate") if is_known else ("drop_duplicate",), may_change=is_known)
    length, may_read = values["dlen"], int(row["access"]) & Access.REMOTE_READ
    place = memory.find(values["rkey"], values["va"], length, Access.REMOTE_READ, queue.domain) if length else 0
    if not may_read or length > MAX_MESSAGE or packets_of(length, int(row["mtu"])) > behind or place is None:
        return Expectation(("drop_duplicate",), may_change=False)
    queue.reads.append(Read(values["psn"], place, length))
    return Expectation(("duplicates", "drop_duplicate"))
