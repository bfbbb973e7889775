"""Completions, answers and writes of devices, and the members that a PEER_LOST reports, each checked at once.

A member may be reported if a fault has affected it: the device crashes, one of its ranks dies or leaves before the
others, or the device is frozen or its links are down for more than half of the detection time. A link that is down
affects both its ends: neither can tell which one is at fault. A device whose child is affected may be reported through
that child. A switch that was affected itself may report all behind the device above it: the job may have ended there
meanwhile, and to the switch an unknown job means that the device above has restarted.
"""

from numba import int64, uint64

from fanin_nic.engine.records.actions import ActionKind
from fanin_nic.native.memory import copy, load_u8, store_u8
from fanin_sim.fuzz.codes import EventKind, RankState, Violation
from fanin_sim.fuzz.tables import message_row, rank_row, scope_row, vertex_row
from fanin_sim.jit import internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.trace import add_line, report_violation
from fanin_wire.abi import MAX_CHILDREN, MessageType, Status
from fanin_wire.limits import MAX_AHEAD

ONE, ZERO = uint64(1), uint64(0)
SCOPE_SHIFT = 56  # in the detail of the violation, above the named bits

# Statuses of a job that was refused for lack of slots. Ranks that join later may wait for ranks that have left.
SHORTAGE = (Status.NO_RESOURCES, Status.PEER_LOST, Status.ABORTED, Status.TIMEOUT, Status.NOT_CONFIGURED)
SHORTAGE_STATUSES = sum(1 << int(status) for status in SHORTAGE)
OPEN = -1  # status of a request that has not ended
NOT_POSTED = -2
ABANDONED = -3  # its rank has left without waiting for it, or has died


@internal
def on_completion(w, vertex, action):
    """A COMPLETE action: of the oldest signaled request under way. Unsignaled ones before it have succeeded (I5)."""
    number = rank_of(w, vertex, int64(action.queue))
    place = int64(action.wr_id)
    status, kind = int64(action.status), int64(action.missing_kind)
    add_line(w, EventKind.COMPLETION, vertex, number, 0, place, kind, status, int64(action.missing))
    if number < 0:
        report_violation(w, Violation.WRONG_COMPLETION, number, place)
        return
    rank = rank_row(w.ranks, number)
    if rank.state == RankState.DEAD or rank.state == RankState.GONE or place < rank.ended or place >= rank.posted:
        report_violation(w, Violation.WRONG_COMPLETION, number, place)
        return
    for unsignaled in range(rank.ended, place):
        if message_row(w.messages, rank.first_message + unsignaled).is_signaled:
            report_violation(w, Violation.WRONG_COMPLETION, number, place)
            return
        end_request(w, number, unsignaled, Status.SUCCESS)
    end_request(w, number, place, status)
    check_peer_lost(w, number, status, kind, uint64(action.missing))
    if rank.state == RankState.RUNNING:
        wake(w, number, w.now)


@internal
def end_request(w, number, place, status):
    """Request `place` of a rank has ended with a status."""
    rank = rank_row(w.ranks, number)
    message = message_row(w.messages, rank.first_message + place)
    message.status = status
    rank.ended = place + 1
    w.open_requests -= 1
    w.ended += 1
    if w.now - w.quiet_since > w.slowest:
        w.slowest = w.now - w.quiet_since
    if status == Status.SUCCESS:
        check_data(w, number, message)
        return
    w.failed += 1
    if not is_tolerated(w, rank, status):
        report_violation(w, Violation.WRONG_STATUS, number, status)


@internal
def check_data(w, number, message):
    if w.accepts_corruption or message.length == 0:
        return
    if message.reference != uint64(0):
        if not is_equal(message.result, message.reference, message.length):
            report_violation(w, Violation.WRONG_RESULT, number, message.length)
    elif load_u8(message.shared) == 0:  # the first receiver; the others must have equal data
        copy(message.shared + uint64(8), message.result, uint64(message.length))
        store_u8(message.shared, 1)
    elif not is_equal(message.result, message.shared + uint64(8), message.length):
        report_violation(w, Violation.DIFFERENT_RESULTS, number, message.length)


@internal
def is_equal(one, other, length):
    offset = 0
    while offset < length and load_u8(one + uint64(offset)) == load_u8(other + uint64(offset)):
        offset += 1
    return offset == length


@internal
def on_notice(w, vertex, action):
    """A NOTICE action: the answer to a JOIN or LEAVE. PENDING is not an answer."""
    if action.status == Status.PENDING:
        return
    number = rank_of(w, vertex, int64(action.queue))
    add_line(w, EventKind.ANSWER, vertex, number, int64(action.opcode), 0, 0, int64(action.status), 0)
    if number < 0:  # no rank has asked
        report_violation(w, Violation.WRONG_COMPLETION, number, int64(action.opcode))
        return
    rank = rank_row(w.ranks, number)
    if rank.state == RankState.DEAD:
        return
    if action.opcode != MessageType.JOIN:
        rank.state = RankState.GONE
        return
    if action.status == Status.SUCCESS:
        rank.state = RankState.RUNNING
        w.slots_granted = max(w.slots_granted, int64(action.byte_length))
    else:
        rank.state = RankState.LEAVING
        take_refusal(w, number, int64(action.status))
    wake(w, number, w.now)


@internal
def take_refusal(w, number, status):
    rank = rank_row(w.ranks, number)
    if w.slots_may_run_out and status == Status.NO_RESOURCES:
        note_shortage(w, rank)
        return
    # Not all devices have forgotten the previous incarnation. Ranks that are refused join again; the others time out.
    in_use = w.incarnation > 0 and (status == Status.JID_IN_USE or w.refused > 0)
    w.refused += 1
    if not in_use and not is_tolerated(w, rank, status):
        report_violation(w, Violation.JOIN_REFUSED, number, status)


@internal
def is_tolerated(w, rank, status):
    """Whether the faults, or a shortage of slots for this job, explain a status."""
    explained = w.tolerated
    if (w.shortage >> uint64(rank.job)) & uint64(1) != uint64(0):
        explained |= uint64(SHORTAGE_STATUSES)
    return (explained >> uint64(status)) & uint64(1) != uint64(0)


@internal
def note_shortage(w, rank):
    before = w.shortage
    w.shortage |= uint64(1) << uint64(rank.job)
    if w.shortage != before:
        w.shortages += 1


@internal
def on_arrival(w, vertex, action):
    """An ARRIVAL action: the data of a message that its rank has not posted, and which must be right (I1, I2). Every
    second rank looks for them, and posts a request that wants nothing.

    Data ahead of a result may be all that a device has heard of their position, so it can not check the number of their
    message: only the ICRC guards it. Once a device has taken a packet without that check, a rank skips data of an
    unexpected number or length, as the driver does.
    """
    number, place = rank_of(w, vertex, int64(action.queue)), int64(action.mid)
    rank = rank_row(w.ranks, max(number, 0))
    if number < 0 or rank.state == RankState.DEAD or action.length == 0 or int64(action.length) > MAX_AHEAD:
        report_violation(w, Violation.STRAY_WRITE, number, place)
        return
    if place < rank.posted or place >= rank.messages:
        if w.undetected == 0:
            report_violation(w, Violation.STRAY_WRITE, number, place)
        return
    message = message_row(w.messages, rank.first_message + place)
    if int64(action.length) != message.length:
        if w.undetected == 0:
            report_violation(w, Violation.WRONG_RESULT, number, place)
        return
    w.arrivals += 1
    is_checked = message.reference != uint64(0) and not w.accepts_corruption
    if is_checked and not is_equal(uint64(action.payload), message.reference, message.length):
        report_violation(w, Violation.WRONG_RESULT, number, place)
    if (number + place) % 2:
        copy(message.result, uint64(action.payload), uint64(message.length))
        message.arrived = 1


@internal
def on_write(w, vertex, action):
    """A DMA_WRITE or TARGET action, which must lie within the result of an open request (I6). Copies the data of a
    DMA_WRITE; REDUCE writes those of a TARGET. Returns False if the write is not allowed."""
    number = rank_of(w, vertex, int64(action.queue))
    place = int64(action.mid)
    if number < 0:
        report_violation(w, Violation.STRAY_WRITE, number, place)
        return False
    rank = rank_row(w.ranks, number)
    if rank.state == RankState.DEAD or place < 0 or place >= rank.posted:
        report_violation(w, Violation.STRAY_WRITE, number, place)
        return False
    message = message_row(w.messages, rank.first_message + place)
    first, end = uint64(action.remote), uint64(action.remote) + uint64(action.length)
    inside = first >= message.result and end <= message.result + uint64(message.length)
    if message.status != OPEN or not inside:
        report_violation(w, Violation.STRAY_WRITE, number, place)
        return False
    if action.kind == ActionKind.DMA_WRITE:
        copy(first, uint64(action.payload), uint64(action.length))
    return True


@internal
def rank_of(w, vertex, queue_index):
    """The rank that has a queue of a device; -1 if none has."""
    for number in range(w.rank_count):
        rank = rank_row(w.ranks, number)
        if rank.vertex == vertex and rank.queue == queue_index:
            return number
    return -1


@internal
def wake(w, number, time):
    """Schedules the next step of a rank, in place of the one that was scheduled before."""
    rank = rank_row(w.ranks, number)
    rank.generation += 1
    event_queue.put(w, time, EventKind.RANK, number, 0, rank.generation)


@internal
def check_peer_lost(w, number, status, kind, named):
    """Checks a completion: PEER_LOST must report a member, and only members that may be reported."""
    if status != Status.PEER_LOST or w.accepts_corruption:
        return
    w.peer_lost_reports += 1
    if not is_report_correct(w, rank_row(w.ranks, number), kind, named):
        report_violation(w, Violation.WRONG_PEER_LOST, number, int64(uint64(kind) << uint64(SCOPE_SHIFT) | named))


@internal
def is_report_correct(w, rank, kind, named):
    """Whether a rank may hear that these members are missing. An affected device may report anything outside. Within a
    node only ranks can be missing, and the device knows which."""
    vertex = vertex_row(w.vertices, rank.vertex)
    if vertex.scope_count > 0 and may_be_reported(w, rank.vertex):
        return True
    if named == ZERO or kind > vertex.scope_count:
        return False
    if kind == 0:
        return have_all_failed(w, rank, named)
    scope = scope_row(vertex.scopes, kind - 1)
    is_whole = named == ~ZERO >> (uint64(MAX_CHILDREN) - uint64(scope.count))
    return (is_whole and may_all_be_reported(w, vertex, kind)) or may_children_be_reported(w, scope, named)


@internal
def have_all_failed(w, rank, named):
    """Whether all reported ranks of a node have died or left."""
    for bit in range(MAX_CHILDREN):
        if (named >> uint64(bit)) & ONE == ZERO:
            continue
        if bit >= rank.node_ranks or rank_row(w.ranks, rank.first_of_node + bit).has_failed == 0:
            return False
    return True


@internal
def may_all_be_reported(w, vertex, kind):
    """Whether all members of a scope may be reported: because of the device above them, or of the one that reports."""
    above = scope_row(vertex.scopes, kind - 1).parent
    if above >= 0 and may_be_reported(w, above):
        return True
    reporter = scope_row(vertex.scopes, kind - 2).parent if kind > 1 else -1
    return reporter >= 0 and may_be_reported(w, reporter)


@internal
def may_children_be_reported(w, scope, named):
    for bit in range(MAX_CHILDREN):
        if (named >> uint64(bit)) & ONE == ZERO:
            continue
        if bit >= scope.count or not may_any_be_reported(w, scope.child[bit]):
            return False
    return True


@internal
def may_any_be_reported(w, vertices):
    """Whether a device of a bitmap may be reported as missing."""
    found = False
    for index in range(w.vertex_count):
        found = found or ((vertices >> uint64(index)) & ONE != ZERO and may_be_reported(w, index))
    return found


@internal
def may_be_reported(w, index):
    vertex = vertex_row(w.vertices, index)
    return vertex.is_faulty != 0 or vertex.downtime > w.detection // 2


@internal
def mark_faulty(w, index):
    """Marks a device as affected by a fault of its own or of a rank on it."""
    vertex_row(w.vertices, index).is_faulty = 1


@internal
def fail_rank(w, number):
    rank = rank_row(w.ranks, number)
    rank.has_failed = 1
    mark_faulty(w, rank.vertex)


@internal
def add_downtime(w, index, duration):
    """Adds a time (ns) during which a device is frozen or its links are down."""
    vertex_row(w.vertices, index).downtime += duration


@internal
def add_link_downtime(w, index, peer, duration):
    """Adds the downtime of links of a device to both ends. peer: the other end; -1: all neighbours."""
    add_downtime(w, index, duration)
    neighbours = vertex_row(w.vertices, index).neighbours
    for other in range(w.vertex_count):
        if other == peer or (peer < 0 and (neighbours >> uint64(other)) & ONE != ZERO):
            add_downtime(w, other, duration)
