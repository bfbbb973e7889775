"""RDMA WRITEs: data go to the memory that the first packet names (section 9.4.3)."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.memory.pieces import write
from fanin_nic.transport.memory.regions import find_region
from fanin_nic.transport.output.headers import HAS_IMMDT, HEADER_BITS
from fanin_nic.transport.queue_pairs.receive_queue import has_receive
from fanin_nic.transport.records.accessors import U64
from fanin_nic.transport.records.psn import psn_after
from fanin_nic.transport.records.tables import Receiving
from fanin_nic.transport.responder.receives import finish_receive, fits_in_sequence, is_length_of_part
from fanin_nic.transport.responder.verdicts import Verdict
from fanin_wire.rocev2 import MAX_MESSAGE, Part
from fanin_wire.verbs import Access, CompletionOpcode, CompletionStatus


@internal
def on_write(t, q, packet, part, data, length):
    """The expected packet of a WRITE; returns a Verdict."""
    begins, ends = part in (Part.FIRST, Part.ONLY), part in (Part.LAST, Part.ONLY)
    if not int64(q.access) & Access.REMOTE_WRITE or not fits_in_sequence(q, part, Receiving.WRITE):
        return Verdict.INVALID
    left = int64(packet.dlen) if begins else int64(q.write_left)
    if left > MAX_MESSAGE or not is_length_of_part(q, part, length) or not is_rest(left, ends, length):
        return Verdict.INVALID
    rkey, address = (packet.rkey, packet.va) if begins else (q.write_rkey, q.write_address)
    found = find_region(t, q, rkey, address, left, Access.REMOTE_WRITE) if left else 0
    if left and not found:
        return Verdict.ACCESS
    with_immediate = ends and int64(HEADER_BITS[packet.opcode]) & HAS_IMMDT != 0
    if with_immediate and not has_receive(t, q):
        return Verdict.NOT_READY
    if begins:
        q.message_length = left
        q.write_rkey = rkey
    if length:
        write(t, q, found, address, data, length)
    q.write_address = address + U64(length)
    q.write_left = left - length
    q.receiving = Receiving.NOTHING if ends else Receiving.WRITE
    if ends:
        q.msn = psn_after(q.msn, 1)
    if with_immediate:
        finish_receive(t, q, packet, CompletionStatus.SUCCESS, CompletionOpcode.RECV_RDMA_WITH_IMM)
    return Verdict.ACCEPTED


@internal
def is_rest(left, ends, length):
    """Whether a packet with `length` of the `left` bytes ends the message if and only if it says so."""
    return length == left if ends else length < left
