"""Executes the engine's actions for a simulated device, in compiled code: builds packets and writes results.

All devices of a simulation share one `ActionBuffers`, because only one device works at a time.
"""

import numpy as np

from fanin_nic.engine import events
from fanin_nic.engine.engine import Limits
from fanin_nic.engine.records.accessors import U64, action_at, engine_at, header_at
from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.engine.records.tables import BODY_SIZE
from fanin_nic.native.codec import encode_header
from fanin_nic.native.memory import address_of, copy, fill_zero, load_u64, record_at
from fanin_sim.fabric.invariants import check
from fanin_sim.jit import compiled
from fanin_wire.fields import TRANSPORT_SIZE

MAX_PACKET = 65_536

OUTCOME = np.dtype(  # of one event
    [
        ("next_deadline", "u8"),  # of the engine
        ("slots_used", "u4"),
        ("packets", "u4"),  # entries of SENT
        ("others", "u4"),  # actions that Python executes; if there are any, the table of actions is not cleared
        ("stray", "u4"),  # 1 + number of an action that writes to memory that does not exist
        ("broken", "u4"),  # enum Broken
        ("reserved", "u4"),
    ],
    align=True,
)
SENT = np.dtype(
    [
        ("destination", "u4"),
        ("opcode", "u4"),
        ("position", "u4"),
        ("length", "u4"),  # bytes, without the ICRC
        ("start", "u8"),  # in the outbox
    ],
    align=True,
)
outcome_at, sent_at = record_at(OUTCOME), record_at(SENT)
SENT_SIZE = U64(SENT.itemsize)
AREA_SIZE = U64(16)
HEADERS = U64(TRANSPORT_SIZE)


@compiled
def exists(areas, count, address, length):
    """Whether a memory range lies within one of `count` areas, pairs of uint64: start, length."""
    for index in range(count):
        start = load_u64(areas + U64(index) * AREA_SIZE)
        size = load_u64(areas + U64(index) * AREA_SIZE + U64(8))
        if start <= address and address + length <= start + size:
            return True
    return False


@compiled
def build_packet(e, index, packet):
    """Builds the packet of a SEND action at address `packet`, from the BTH to before the ICRC. Returns its bytes."""
    action, header = action_at(e, index), header_at(e, index)
    length, padding = U64(action.length), (U64(4) - (U64(action.length) & U64(3))) & U64(3)
    header.padcount = padding
    encode_header(address_of(header), packet)
    if length:
        copy(packet + HEADERS, U64(action.payload), length)
        fill_zero(packet + HEADERS + length, padding)
    return HEADERS + length + padding


@compiled
def put_packet(e, index, sent, packet, start):
    """Builds the packet of a SEND action, and writes a SENT record to address `sent`. Returns the packet's bytes."""
    action, header = action_at(e, index), header_at(e, index)
    entry = sent_at(sent)
    entry.length = build_packet(e, index, packet)
    entry.destination = action.destination
    entry.opcode = header.opcode
    entry.position = header.position
    entry.start = start
    return U64(entry.length)


@compiled
def perform(base, areas, area_count, sent, outbox, outcome, keys, positions):
    """Executes the engine's actions, then checks its invariants. Writes an OUTCOME record.

    Args:
        areas, area_count: memory of the processes, see `exists`.
        sent, outbox, outcome: addresses of the buffers, see `ActionBuffers`.
        keys, positions: see `invariants.check`.
    """
    e = engine_at(U64(base))
    result = outcome_at(U64(outcome))
    result.packets = 0
    result.others = 0
    result.stray = 0
    used = U64(0)
    for index in range(e.action_count):
        action = action_at(e, index)
        if action.kind == ActionKind.SEND:
            place = U64(sent) + U64(result.packets) * SENT_SIZE
            used += put_packet(e, index, place, U64(outbox) + used, used)
            result.packets += 1
        elif action.kind not in (ActionKind.DMA_WRITE, ActionKind.REDUCE, ActionKind.SOURCE, ActionKind.TARGET):
            result.others += 1
        elif action.kind != ActionKind.REDUCE and not exists(
            U64(areas), area_count, U64(action.remote), U64(action.length)
        ):
            result.stray = index + 1
        elif action.kind == ActionKind.DMA_WRITE:
            copy(U64(action.remote), U64(action.payload), U64(action.length))
        elif action.kind == ActionKind.REDUCE:
            events.reduce(base, index)
    if result.others == 0 and result.stray == 0:
        e.action_count = 0
    result.broken = check(U64(base), U64(keys), U64(positions))
    result.next_deadline = e.next_deadline
    result.slots_used = e.slots_used


class ActionBuffers:
    """Memory for one packet that arrives, and for all packets that one event makes a device send."""

    def __init__(self, limits: Limits) -> None:
        packet = TRANSPORT_SIZE + max(limits.max_chunk, BODY_SIZE) + 4
        self.inbox = np.zeros(MAX_PACKET, np.uint8)
        self.outbox = np.empty(limits.actions * packet, np.uint8)  # pages are allocated as they are used
        self.sent = np.zeros(limits.actions, SENT)
        self.outcome = np.zeros(1, OUTCOME)
        self.inbox_bytes, self.outbox_bytes = self.inbox.data, self.outbox.data
        self.inbox_address = self.inbox.ctypes.data
        self.addresses = self.sent.ctypes.data, self.outbox.ctypes.data, self.outcome.ctypes.data
