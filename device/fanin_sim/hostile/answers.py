"""Acknowledgements and responses to the requests under way (sections 9.7.5 and 9.7.6)."""

import numpy as np

from fanin_sim.hostile.expectation import Expectation, dropped
from fanin_sim.hostile.memory import Memory
from fanin_sim.hostile.messages import Completions, scatter
from fanin_sim.hostile.packets import Packet
from fanin_sim.hostile.queues import Queue, Request, distance
from fanin_wire.rocev2 import ACKNOWLEDGE_SHIFT, ACKNOWLEDGE_VALUE, ATOMIC_BYTES, Acknowledge, Nak, Operation, Part
from fanin_wire.verbs import CompletionStatus

ERRORS = {
    Nak.INVALID_REQUEST: CompletionStatus.REM_INV_REQ_ERR,
    Nak.REMOTE_ACCESS: CompletionStatus.REM_ACCESS_ERR,
    Nak.REMOTE_OPERATIONAL: CompletionStatus.REM_OP_ERR,
}
MODULUS = 1 << 24


def expect(queue: Queue, row: np.void, memory: Memory, packet: Packet) -> Expectation:
    psn, oldest = packet.values["psn"], int(row["unacknowledged"])
    if distance(psn, oldest) >= distance(int(row["end_psn"]), oldest):
        return dropped("drop_stale")
    if packet.opcode.operation == Operation.ACKNOWLEDGE:
        return acknowledged(queue, row, packet.values["syndrome"], psn)
    return answered(queue, row, memory, packet)


def acknowledge(queue: Queue, oldest: int, end: int, completions: Completions) -> int | None:
    """All packets before `end` have arrived. Returns the oldest PSN under way; None if a response before is missing."""
    while oldest != end:
        request = queue.sends[0]
        if request.kind:
            return None
        if distance(end, request.first) < request.packets:
            return end
        oldest = request.end
        finish(queue, CompletionStatus.SUCCESS, completions)
    return oldest


def finish(queue: Queue, status: CompletionStatus, completions: Completions) -> None:
    """The oldest request ends."""
    completions.append((queue.sends.popleft().wr_id, int(status)))


def acknowledged(queue: Queue, row: np.void, syndrome: int, psn: int) -> Expectation:
    """An ACK, NAK or RNR NAK of a packet under way."""
    kind, value = syndrome >> ACKNOWLEDGE_SHIFT, syndrome & ACKNOWLEDGE_VALUE
    is_known = kind in (Acknowledge.ACK, Acknowledge.RNR_NAK) or (kind == Acknowledge.NAK and value in (0, *ERRORS))
    if not is_known:
        return dropped("drop_response")
    expectation, oldest = Expectation(), int(row["unacknowledged"])
    end = (psn + 1) % MODULUS if kind == Acknowledge.ACK else psn
    reached = acknowledge(queue, oldest, end, expectation.completions)
    if kind == Acknowledge.ACK or reached is None:
        return expectation
    is_progress = bool(expectation.completions) or reached != oldest
    if kind == Acknowledge.RNR_NAK:
        if not row["rnr_retry" if is_progress else "rnr_left"]:
            finish(queue, CompletionStatus.RNR_RETRY_EXC_ERR, expectation.completions)
    elif value in ERRORS:
        finish(queue, ERRORS[Nak(value)], expectation.completions)
    elif not row["retry_count" if is_progress else "retries_left"]:
        finish(queue, CompletionStatus.RETRY_EXC_ERR, expectation.completions)
    return expectation


def answered(queue: Queue, row: np.void, memory: Memory, packet: Packet) -> Expectation:
    """A response with a PSN under way."""
    psn, oldest = packet.values["psn"], int(row["unacknowledged"])
    request = next(request for request in queue.sends if distance(psn, request.first) < request.packets)
    number = distance(psn, request.first)
    is_last = number == request.packets - 1
    if not is_fitting(request, number, int(row["mtu"]), packet):
        return dropped("drop_response")
    expectation = Expectation()
    start = oldest if distance(oldest, request.first) < request.packets else request.first
    reached = acknowledge(queue, oldest, start, expectation.completions)
    if reached is None or queue.sends[0] is not request or psn != reached:
        expectation.reasons = ("drop_sequence",)
        return expectation
    payload = packet.payload
    if request.kind == "atomic":
        payload = packet.values["original"].to_bytes(ATOMIC_BYTES, "little")
    scatter(memory, request.pieces, number * int(row["mtu"]), payload)
    if is_last:
        finish(queue, CompletionStatus.SUCCESS, expectation.completions)
    return expectation


def is_fitting(request: Request, number: int, mtu: int, packet: Packet) -> bool:
    """Whether a response is the packet `number` of the response to a request."""
    if packet.opcode.operation == Operation.ATOMIC_ACKNOWLEDGE:
        return request.kind == "atomic"
    if request.kind != "read":
        return False
    length = sum(piece.length for piece in request.pieces)
    ends = packet.opcode.part in (Part.LAST, Part.ONLY)
    return len(packet.payload) == min(length - number * mtu, mtu) and ends == (number == request.packets - 1)
