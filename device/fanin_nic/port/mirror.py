"""Packets of a port for its tap, one by one, before they are joined or after they are split.

A packet that the port drops has its reason (Drop); if engine or transport drop one, the loop notes it
(daemon.loop.tapped). Both ends of a super-packet know the place of each packet in it.
"""

from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import IOVEC, MMSGHDR, monotonic_ns
from fanin_nic.native.memory import copy, load_be32, load_u8, record_at, store_u64
from fanin_nic.native.tap import packet_at, reserve, tap_at
from fanin_nic.port.descriptors import SEND_MESSAGE
from fanin_wire.fields import BTH, CETH, FIRST_OFFLOAD_OPCODE, TRANSPORT_SIZE
from fanin_wire.tap import ORDINARY_KIND, UNIT, Record

message_at = record_at(SEND_MESSAGE)
mmsghdr_at = record_at(MMSGHDR)
iovec_at = record_at(IOVEC)

IOVEC_SIZE = IOVEC.itemsize
JID = uint64(BTH.size + CETH.byte_offset("jid"))
TAKEN = 0  # in place of a reason
FIRST_REASON = 1  # number of Drop 0 among the reasons


@compiled
def begin_mirror(port):
    """A batch of packets came, or goes."""
    tap_at(port.tap).now = uint64(monotonic_ns())


@compiled
def _is_wanted(tap, packet, size):
    """Whether a packet of `size` bytes, whose headers are contiguous, passes the tap's filter."""
    if not tap.packets:
        return False
    code = int64(load_u8(packet)) - FIRST_OFFLOAD_OPCODE if size > 0 else int64(-1)
    kind = code if 0 <= code < ORDINARY_KIND else ORDINARY_KIND
    if tap.kinds & uint32(1 << kind) == 0:
        return False
    if not tap.one_job:
        return True
    return code >= 0 and size >= TRANSPORT_SIZE and load_be32(packet + JID) == tap.jid


@compiled
def _open(tap, kind, size):
    """Address of a new record for a packet of `size` bytes; 0: no room."""
    place = reserve(tap, 1 + (int64(size) + UNIT - 1) // UNIT)
    if place:
        record = packet_at(place)
        record.time, record.kind, record.length = tap.now, kind, size
    return place


@compiled
def mirror_received(port, reason, source, destination, source_port, place, packet, size):
    """Record a received packet; returns the address of the record, or 0. reason: a Drop; negative: none."""
    tap = tap_at(port.tap)
    if not _is_wanted(tap, packet, size):
        return uint64(0)
    address = _open(tap, Record.RECEIVED, size)
    if address:
        record = packet_at(address)
        record.detail = reason + FIRST_REASON if reason >= 0 else TAKEN
        record.source, record.destination = source, destination
        record.source_port, record.identification = source_port, place
        copy(address + uint64(UNIT), packet, uint64(size))
    return address


@compiled
def remember_record(port, index, record):
    """Keep the record of the packet at `index` of the port's table of RECEIVED."""
    store_u64(tap_at(port.tap).received + uint64(index) * uint64(8), record)


@compiled
def mirror_sent(port, message_address, mmsghdr_address, reason):
    """Record the packets of a SEND_MESSAGE and its MMSGHDR. reason: a Drop; negative: none."""
    tap, message, mmsghdr = tap_at(port.tap), message_at(message_address), mmsghdr_at(mmsghdr_address)
    piece, used, left = uint64(mmsghdr.iov), uint64(0), int64(message.length)
    for place in range(int64(message.packets)):
        size = min(int64(message.segment_size), left)
        left -= size
        address = uint64(0)
        if _is_wanted(tap, uint64(iovec_at(piece).base) + used, size):
            address = _open(tap, Record.SENT, size)
        if address:
            record = packet_at(address)
            record.detail = reason + FIRST_REASON if reason >= 0 else TAKEN
            record.source, record.destination = port.address, message.destination
            record.source_port, record.identification = port.source_port, place
        target, written = address + uint64(UNIT), uint64(0)
        while written < uint64(size):
            source = iovec_at(piece)
            part = min(uint64(source.length) - used, uint64(size) - written)
            if address:
                copy(target + written, uint64(source.base) + used, part)
            written += part
            used += part
            if used == uint64(source.length):
                piece, used = piece + uint64(IOVEC_SIZE), uint64(0)
