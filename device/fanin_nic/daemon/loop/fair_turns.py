"""Fair turns of the two kinds of traffic on a lane's port: collectives, and ordinary RDMA traffic.

While both have work, neither moves more than RATIO times the bytes of the other, but for a BURST. Bytes are those of
the port's UDP datagrams, sent and received. Each kind has a credit of bytes: its own traffic spends it, the other's
adds RATIO times as much. A kind without credit is held: collectives read no further segments, and queue pairs have no
turn. Arriving packets and requests are always taken.

A kind is not held while the other has no work, which would leave the port idle. Collectives have work while at least
BUSY_SLOTS positions are in flight: then bandwidth bounds them. Short messages, which latency bounds, hold nothing.
Ordinary traffic has work while a queue pair can act at once; a full window is not work. Nor is a kind held for longer
than MAX_HOLD, so that neither waits for a peer of the other.
"""

from numba import int64

from fanin_nic.engine.records.accessors import U64, engine_at
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import record_at
from fanin_nic.port.descriptors import PORT
from fanin_nic.transport.records.accessors import transport_at

RATIO = 2
BURST = 1 << 21  # bytes
BUSY_SLOTS = 32
MAX_HOLD = 200_000  # ns

port_at = record_at(PORT)


@compiled
def share_port(lane, now):
    """Spend and add credits for what the port moved since the last call."""
    port = port_at(lane.port)
    collective, ordinary = port.collective_bytes - lane.collective_seen, port.ordinary_bytes - lane.ordinary_seen
    lane.collective_seen, lane.ordinary_seen = port.collective_bytes, port.ordinary_bytes
    t = transport_at(lane.transport)
    collectives_work = engine_at(lane.engine).slots_used >= BUSY_SLOTS
    ordinary_works = t.ready_head != t.ready_tail
    lane.collective_credit = credit(lane.collective_credit, collective, ordinary, ordinary_works)
    lane.ordinary_credit = credit(lane.ordinary_credit, ordinary, collective, collectives_work)
    if lane.collective_credit >= 0 or now - lane.collective_free >= U64(MAX_HOLD):
        lane.collective_credit, lane.collective_free = max(int64(0), int64(lane.collective_credit)), now
    if lane.ordinary_credit >= 0 or now - lane.ordinary_free >= U64(MAX_HOLD):
        lane.ordinary_credit, lane.ordinary_free = max(int64(0), int64(lane.ordinary_credit)), now


@compiled
def collectives_held(lane):
    """Whether collectives read no further segments in this turn."""
    return lane.ordinary_end != 0 and lane.collective_credit < 0


@compiled
def ordinary_held(lane):
    """Whether queue pairs have no turn now."""
    return lane.ordinary_credit < 0


@compiled
def credit(before, own, other, other_works):
    """The credit of a kind after it moved `own` bytes, and the other kind `other`."""
    if not other_works:
        return int64(BURST)
    return min(int64(BURST), int64(before) + RATIO * int64(other) - int64(own))
