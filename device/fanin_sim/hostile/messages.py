"""SENDs and WRITEs, of connections with and without acknowledgements (sections 9.4.1, 9.4.3 and 9.7.4)."""

import numpy as np

from fanin_nic.transport.records.tables import Receiving
from fanin_sim.hostile.memory import REMOTE, Memory
from fanin_sim.hostile.packets import Packet
from fanin_sim.hostile.queues import Piece, Queue
from fanin_wire.rocev2 import MAX_MESSAGE, Part
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, CompletionStatus

BEGIN, END = (Part.FIRST, Part.ONLY), (Part.LAST, Part.ONLY)
ACCEPTED, NOT_READY, INVALID, ACCESS, OPERATION = "", "not ready", "invalid", "access", "operation"

Completions = list[tuple[int, int]]


def fits(packet: Packet, row: np.void, receiving: Receiving) -> bool:
    """Whether a packet fits the message in progress, and has the length of its part."""
    part, mtu, length = packet.opcode.part, int(row["mtu"]), len(packet.payload)
    expected = Receiving.NOTHING if part in BEGIN else receiving
    if row["receiving"] != expected:
        return False
    if part in (Part.FIRST, Part.MIDDLE):
        return length == mtu
    return length <= mtu and (part == Part.ONLY or length > 0)


def scatter(memory: Memory, pieces: tuple[Piece, ...], offset: int, data: bytes) -> bool:
    """Expect the data in the pieces, from byte `offset` of them on. Returns False if a piece may not be written."""
    for piece in pieces:
        skipped = min(offset, piece.length)
        offset -= skipped
        part, data = data[: piece.length - skipped], data[piece.length - skipped :]
        if part and not piece.may_write:
            return False
        memory.expect(piece.place + skipped, part)
    return not data


def end_receive(queue: Queue, status: CompletionStatus, completions: Completions) -> None:
    """End the oldest receive request. An unreliable connection keeps it for the next message if this one failed."""
    if queue.kind == Service.RC or status == CompletionStatus.SUCCESS:
        completions.append((queue.source.popleft().wr_id, int(status)))


def send(queue: Queue, row: np.void, memory: Memory, packet: Packet, completions: Completions) -> str:
    """The verdict on an expected packet of a SEND."""
    if not fits(packet, row, Receiving.SEND):
        return INVALID
    begins, ends = packet.opcode.part in BEGIN, packet.opcode.part in END
    if begins and not queue.source:
        return NOT_READY
    request, offset = queue.source[0], 0 if begins else int(row["message_length"])
    if offset + len(packet.payload) > request.length:
        end_receive(queue, CompletionStatus.LOC_LEN_ERR, completions)
        return INVALID
    if not scatter(memory, request.pieces, offset, packet.payload):
        end_receive(queue, CompletionStatus.LOC_PROT_ERR, completions)
        return OPERATION
    if ends and packet.has("IETH") and not invalidate(queue, memory, packet.values["invalidated_rkey"]):
        end_receive(queue, CompletionStatus.REM_INV_REQ_ERR, completions)
        return INVALID
    if ends:
        end_receive(queue, CompletionStatus.SUCCESS, completions)
    else:
        queue.keep()
    return ACCEPTED


def invalidate(queue: Queue, memory: Memory, key: int) -> bool:
    """A key loses the rights of the other side, if its region allows that."""
    for region in memory.regions.values():
        if region.key == key and region.domain == queue.domain and memory.rights[key] & Access.REMOTE_INVALIDATE:
            memory.rights[key] &= ~REMOTE
            return True
    return False


def write(queue: Queue, row: np.void, memory: Memory, packet: Packet, completions: Completions) -> str:
    """The verdict on an expected packet of a WRITE."""
    if not int(row["access"]) & Access.REMOTE_WRITE or not fits(packet, row, Receiving.WRITE):
        return INVALID
    begins, ends, length = packet.opcode.part in BEGIN, packet.opcode.part in END, len(packet.payload)
    left = packet.values["dlen"] if begins else int(row["write_left"])
    if left > MAX_MESSAGE or (length != left if ends else length >= left):
        return INVALID
    key, address = (packet.values["rkey"], packet.values["va"]) if begins else (row["write_rkey"], row["write_address"])
    place = memory.find(int(key), int(address), left, Access.REMOTE_WRITE, queue.domain) if left else 0
    if place is None:
        return ACCESS
    if packet.has("ImmDt") and not queue.source:
        return NOT_READY
    memory.expect(place, packet.payload)
    if packet.has("ImmDt"):
        end_receive(queue, CompletionStatus.SUCCESS, completions)
    return ACCEPTED
