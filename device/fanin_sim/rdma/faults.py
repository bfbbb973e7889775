"""Fault injection: random faults of packets and programs, by a hash of the seed, the link and the packet's number."""

from numba import int64, uint64

from fanin_nic.native.memory import load_u32, store_u32
from fanin_sim.jit import internal
from fanin_sim.kernel.counter_rng import RATE_SCALE, draw
from fanin_sim.kernel.trace import add_line
from fanin_sim.rdma.codes import EventKind
from fanin_sim.rdma.tables import COUNTERS
from fanin_wire.rocev2 import CODES

ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = CODES["RC_ACKNOWLEDGE"], CODES["RC_ATOMIC_ACKNOWLEDGE"]
READ_RESPONSE = CODES["RC_RDMA_READ_RESPONSE_FIRST"]  # the first of the opcodes that answer
NO_VALUE = -1  # the fault does not happen


@internal
def link_of(w, source, target):
    return source * w.device_count + target


@internal
def next_ordinal(w, link):
    """How many packets a link has carried, before this one."""
    place = w.sent + uint64(4 * link)
    ordinal = int64(load_u32(place))
    store_u32(place, ordinal + 1)
    return ordinal


@internal
def note_fault(w, kind, place):
    """Count a fault, and note it in the trace."""
    w.happened[kind] += 1
    add_line(w, EventKind.FAULT_APPLIED, place, 0, 0, 0, kind, 0, 0)


@internal
def fault_value(w, kind, place, ordinal):
    """Value of a fault, a random number of at least 0; NO_VALUE if it does not happen."""
    if w.rate[kind] == 0 or w.budget <= 0:
        return NO_VALUE
    drawn = draw(w.seed, kind, place, ordinal)
    if drawn % RATE_SCALE >= w.rate[kind]:
        return NO_VALUE
    w.budget -= 1
    note_fault(w, kind, place)
    return drawn // RATE_SCALE


@internal
def is_response(packet):
    """Whether a packet answers a request, as READs, atomics and acknowledgements do. It has the PSN of its request,
    which a request in the other direction may have as well."""
    return READ_RESPONSE <= packet.opcode <= ATOMIC_ACKNOWLEDGE


@internal
def place_of_removals(w, packet):
    """Address of the counter of a packet's failures in a row. A packet that is sent again has the same PSN; a repeated
    acknowledgement may have another one."""
    psn = 0 if packet.opcode == ACKNOWLEDGE else 1 + int64(packet.psn)
    key = int64(packet.qpn) * 74 + 2 * psn + (1 if is_response(packet) else 0)
    link = link_of(w, int64(packet.source), int64(packet.target))
    return w.removed_in_a_row + uint64(4 * (link * COUNTERS + key % COUNTERS))


@internal
def removal_value(w, kind, packet, link, ordinal):
    """As `fault_value`, for a fault that delays or loses a packet. A request arrives at the latest at the third time,
    its answer at the second, so seven retries suffice."""
    place = place_of_removals(w, packet)
    limit = 1 if is_response(packet) else w.most_in_a_row
    if int64(load_u32(place)) >= limit:
        return NO_VALUE
    value = fault_value(w, kind, link, ordinal)
    if value != NO_VALUE:
        store_u32(place, load_u32(place) + 1)
    return value


@internal
def reset_removals(w, packet):
    store_u32(place_of_removals(w, packet), 0)
