"""A lane with a tap: packets are taken one by one, and their records say why they were dropped. Engine and transport
count drops by reason without naming packets, so the counters are compared before and after each."""

from numba import int64

from fanin_nic.engine import events
from fanin_nic.engine.records.accessors import U64
from fanin_nic.engine.records.tables import COUNTERS, Counter
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import address_of, copy, load_u64
from fanin_nic.native.tap import packet_at, publish, tap_at
from fanin_nic.port.descriptors import Drop
from fanin_nic.port.mirror import FIRST_REASON
from fanin_nic.transport import events as ordinary
from fanin_nic.transport.records.tables import COUNTERS as ORDINARY_COUNTERS
from fanin_nic.transport.records.tables import Counter as OrdinaryCounter

# Where the counters of engine and transport begin among the reasons
ENGINE_REASONS = FIRST_REASON + len(Drop)
ORDINARY_REASONS = ENGINE_REASONS + COUNTERS
COUNTERS_BYTES, ORDINARY_COUNTERS_BYTES = COUNTERS * 8, ORDINARY_COUNTERS * 8
DROPS = tuple(int(counter) for counter in Counter if counter.name.startswith("DROP_"))
ORDINARY_DROPS = tuple(int(counter) for counter in OrdinaryCounter if counter.name.startswith("DROP_"))


def reasons() -> list[str]:
    """Names of the counters behind the reasons in a tap's records, row by row; "" for others."""
    rows = [""] * (ORDINARY_REASONS + ORDINARY_COUNTERS)
    for first, prefix, counters in (
        (FIRST_REASON, "drop_", Drop),
        (ENGINE_REASONS, "", Counter),
        (ORDINARY_REASONS, "ordinary_", OrdinaryCounter),
    ):
        for counter in counters:
            name = f"{prefix}{counter.name.lower()}"
            rows[first + counter] = name if "drop_" in name else ""
    return rows


@compiled
def take_tapped(lane, e, table, first, count, tap_address, now):
    """events.packets with the reasons of drops."""
    before, counters, index = stack_bytes(COUNTERS_BYTES), address_of(e) + e.counter_offset, int64(first)
    while index < count:
        copy(before, counters, U64(COUNTERS_BYTES))
        if events.packets(lane.engine, table, index, index + 1, now) == index:
            break
        for counter in DROPS:
            if load_u64(counters + U64(counter * 8)) != load_u64(before + U64(counter * 8)):
                _note(tap_address, index, ENGINE_REASONS + counter)
        index += 1
    return index


@compiled
def take_ordinary_tapped(lane, t, table, first, count, tap_address, now):
    """transport.events.packets with the reasons of drops."""
    before, counters, index = stack_bytes(ORDINARY_COUNTERS_BYTES), address_of(t) + t.counter_offset, int64(first)
    while index < count:
        copy(before, counters, U64(ORDINARY_COUNTERS_BYTES))
        if ordinary.packets(lane.transport, table, index, index + 1, now) == index:
            break
        for counter in ORDINARY_DROPS:
            if load_u64(counters + U64(counter * 8)) != load_u64(before + U64(counter * 8)):
                _note(tap_address, index, ORDINARY_REASONS + counter)
        index += 1
    return index


@compiled
def move_record(tap_address, target, index):
    """The packet at `index` of the table of RECEIVED moves to `target`."""
    records = tap_at(tap_address).received
    copy(records + U64(target) * U64(8), records + U64(index) * U64(8), U64(8))


@compiled
def _note(tap_address, index, reason):
    record = load_u64(tap_at(tap_address).received + U64(index) * U64(8))
    if record:
        packet_at(record).detail = reason


@compiled
def publish_tap(tap_address):
    """Show the reader what the lane has recorded."""
    publish(tap_at(tap_address))
