"""Faults: random ones or those of a given list, and planned crashes, restarts and stops at an event of a device."""

from numba import int64, uint64

from fanin_nic.engine.engine import KEEPALIVES
from fanin_nic.engine.records.accessors import engine_at, queue_at
from fanin_nic.native.memory import copy, fill_zero, load_u32, store_u32
from fanin_sim.fuzz.checks import ABANDONED, OPEN, add_downtime, add_link_downtime, fail_rank, mark_faulty
from fanin_sim.fuzz.codes import EventKind, FaultKind, RankState
from fanin_sim.fuzz.tables import MAX_FAULTS, OPCODES, fault_row, message_row, rank_row, vertex_row
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.calls import call_event
from fanin_sim.kernel.event_queue import RATE_SCALE, WEIGHT, draw
from fanin_sim.kernel.tables import NEVER
from fanin_sim.kernel.trace import add_line
from fanin_wire.abi import Status

MICROSECOND, MILLISECOND = 1_000, 1_000_000
NO_VALUE = -1  # the fault does not happen
LEAVE_TAG = 0
ACTIONS_SHIFT = 8  # the low bits of a crash's value: how many actions of the event are executed
ALL_ACTIONS = 255


# Random faults, or those of a given list


@internal
def fault_value(w, kind, source, target, opcode, ordinal):
    """The value of a fault at a packet or a rank, a random number of at least 0; NO_VALUE if it does not happen."""
    if w.is_given:
        return given_fault_value(w, kind, source, target, opcode, ordinal)
    if w.rate[kind] == 0 or w.budget <= 0:
        return NO_VALUE
    place = number_of_link(w, source, target) * OPCODES + opcode
    drawn = draw(w.seed, kind, place, ordinal)
    if (drawn % RATE_SCALE) * 4 >= w.rate[kind] * weight(w, kind, place):
        return NO_VALUE
    w.budget -= 1
    return drawn // RATE_SCALE


@internal
def given_fault_value(w, kind, source, target, opcode, ordinal):
    """The value of a fault of the given list; NO_VALUE if it is not in the list."""
    for index in range(w.given_count):
        fault = fault_row(w.given, index)
        same = fault.kind == kind and fault.source == source and fault.target == target
        if same and fault.opcode == opcode and fault.ordinal == ordinal:
            return fault.value
    return NO_VALUE


@internal
def weight(w, kind, place):
    """A factor for the rate of a fault at a place, in quarters: some links and opcodes have none, some many."""
    chosen = draw(w.seed, WEIGHT, place, kind) & 7
    return (0, 1, 1, 2, 4, 4, 8, 24)[chosen]


@internal
def removal_value(w, kind, source, target, opcode, ordinal):
    """As `fault_value`, for a fault that removes a packet: at most `most_in_a_row` times in a row."""
    value = fault_value(w, kind, source, target, opcode, ordinal)
    place = w.removed_in_a_row + uint64(4 * (number_of_link(w, source, target) * OPCODES + opcode))
    if value == NO_VALUE:
        return NO_VALUE
    if not w.is_given and int64(load_u32(place)) >= w.most_in_a_row:
        return NO_VALUE
    store_u32(place, load_u32(place) + 1)
    return value


@internal
def reset_removals(w, source, target, opcode):
    store_u32(w.removed_in_a_row + uint64(4 * (number_of_link(w, source, target) * OPCODES + opcode)), 0)


@internal
def number_of_link(w, source, target):
    return source * w.vertex_count + target


@internal
def next_ordinal(w, link, opcode):
    """How many packets of an opcode a link has carried, before this one."""
    place = w.sent + uint64(4 * (link * OPCODES + opcode))
    ordinal = int64(load_u32(place))
    store_u32(place, ordinal + 1)
    return ordinal


@internal
def record_fault(w, kind, source, target, opcode, ordinal, value, until):
    """Records a fault that ends at time `until` (ns)."""
    w.quiet_since = max(w.quiet_since, until)
    if w.fault_count < MAX_FAULTS:
        fault = fault_row(w.faults, w.fault_count)
        fault.kind = kind
        fault.source = source
        fault.target = target
        fault.opcode = opcode
        fault.ordinal = ordinal
        fault.value = value
        fault.time = w.now
        w.fault_count += 1


# Planned faults


@internal
def begin_event(w, index):
    """Begins an event of a device: counts it, and applies or prepares the fault that is planned for it."""
    vertex = vertex_row(w.vertices, index)
    vertex.events += 1
    w.events += 1
    planned = find_planned(w, index, vertex.events)
    if planned == 0:
        return
    fault = fault_row(w.given, planned - 1)
    if fault.kind not in (FaultKind.NIC_CRASH, FaultKind.SWITCH_CRASH, FaultKind.RESTART):
        apply_before_event(w, index, fault)
    else:
        vertex.planned_crash = planned
        vertex.actions_left = fault.value & ALL_ACTIONS
        if vertex.actions_left == ALL_ACTIONS:
            vertex.actions_left = NEVER


@internal
def find_planned(w, index, ordinal):
    """Returns 1 + the number of the fault that is planned for an event of a device; 0 if there is none."""
    for number in range(w.given_count):
        fault = fault_row(w.given, number)
        if fault.kind >= FaultKind.PARTITION and fault.source == index and fault.ordinal == ordinal:
            return number + 1
    return 0


@internal
def apply_before_event(w, index, fault):
    """Applies a fault that takes effect before the event: of a rank, of links, or a freeze of the device."""
    add_line(w, EventKind.FAULT_APPLIED, index, fault.target, fault.kind, 0, 0, fault.value, fault.ordinal)
    vertex = vertex_row(w.vertices, index)
    if fault.kind == FaultKind.PARTITION:
        vertex.links_down_until = w.now + fault.value
        vertex.link_down_peer = fault.target
        add_link_downtime(w, index, fault.target, fault.value)
        record_fault(
            w, FaultKind.PARTITION, index, fault.target, 0, fault.ordinal, fault.value, vertex.links_down_until
        )
    elif fault.kind == FaultKind.FREEZE:
        vertex.frozen_until = w.now + fault.value
        add_downtime(w, index, fault.value)
        record_fault(w, FaultKind.FREEZE, index, fault.target, 0, fault.ordinal, fault.value, vertex.frozen_until)
    else:
        crash_rank(w, vertex, fault)


@internal
def crash_rank(w, vertex, fault):
    """A rank dies, or leaves without waiting for its requests."""
    rank = rank_row(w.ranks, fault.target)
    if rank.state == RankState.GONE or rank.state == RankState.DEAD:
        return
    record_fault(w, fault.kind, fault.source, fault.target, 0, fault.ordinal, fault.value, w.now)
    if fault.kind == FaultKind.RANK_CRASH:
        mark_dead(w, fault.target)
        call_event(w.on_lose, (int64(vertex.base), rank.queue, Status.PEER_LOST, w.now))
    elif rank.state == RankState.RUNNING:
        rank.state = RankState.LEAVING
        rank.generation += 1
        fail_rank(w, fault.target)
        abandon_requests(w, fault.target)
        call_event(w.on_leave, (int64(vertex.base), rank.queue, LEAVE_TAG, w.now))


@internal
def crash_device(w, index):
    """A device crashes after its event, with the ranks of its node. It may restart later."""
    vertex = vertex_row(w.vertices, index)
    fault = fault_row(w.given, vertex.planned_crash - 1)
    add_line(w, EventKind.FAULT_APPLIED, index, index, fault.kind, 0, 0, fault.value, fault.ordinal)
    vertex.planned_crash = 0
    vertex.alive = 0
    vertex.deadline = NEVER
    mark_faulty(w, index)
    for number in range(w.rank_count):
        if rank_row(w.ranks, number).vertex == index:
            mark_dead(w, number)
    until = w.now
    if fault.kind == FaultKind.RESTART:
        until += fault.value >> ACTIONS_SHIFT
        event_queue.put(w, until, EventKind.REBOOT, index, 0, 0)
    record_fault(w, fault.kind, index, fault.target, 0, fault.ordinal, fault.value, until)


@internal
def mark_dead(w, number):
    rank = rank_row(w.ranks, number)
    if rank.state != RankState.GONE and rank.state != RankState.DEAD:
        rank.state = RankState.DEAD
        fail_rank(w, number)
        abandon_requests(w, number)


@internal
def abandon_requests(w, number):
    rank = rank_row(w.ranks, number)
    for place in range(rank.posted):
        message = message_row(w.messages, rank.first_message + place)
        if message.status == OPEN:
            message.status = ABANDONED
            w.open_requests -= 1


# Starts of devices


@internal
def reboot(w, index):
    """Restarts a device without clients."""
    vertex = vertex_row(w.vertices, index)
    vertex.boots += 1
    restore_snapshot(w, index)
    e = engine_at(vertex.base)
    for number in range(int64(e.queues)):
        queue_at(e, number).active = 0
    add_line(w, EventKind.REBOOT, index, index, 0, 0, 0, vertex.boots, 0)


@internal
def restore_snapshot(w, index):
    vertex = vertex_row(w.vertices, index)
    copy(vertex.base, vertex.snapshot, uint64(vertex.size))
    fill_zero(vertex.keys, uint64(vertex.watch_size))
    e = engine_at(vertex.base)
    e.first_position = w.first_position
    e.detection = w.detection
    e.keepalive = w.detection // KEEPALIVES
    e.boot_id = uint64(index * 1000 + vertex.boots + 1)
    vertex.alive = 1
    vertex.planned_crash = 0
    vertex.frozen_until = 0
    vertex.deadline = NEVER
