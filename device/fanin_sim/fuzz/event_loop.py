"""The event loop: runs a schedule from its first event to its last, and checks invariants and its end."""

from numba import int64, uint64

from fanin_nic.engine.records.accessors import engine_at, job_at
from fanin_nic.engine.records.tables import Counter, JobState
from fanin_nic.native.memory import address_of, load_u64
from fanin_sim.fuzz.codes import EventKind, RankState, Violation
from fanin_sim.fuzz.device_events import arrive_batch, finish_read, serve, tick
from fanin_sim.fuzz.faults import reboot, restore_snapshot
from fanin_sim.fuzz.rank_programs import advance, start_rank
from fanin_sim.fuzz.tables import OPCODES, WORLD, rank_row, vertex_row, world_row
from fanin_sim.jit import compiled, internal
from fanin_sim.kernel import event_queue
from fanin_sim.kernel.packets import clear
from fanin_sim.kernel.tables import NEVER, event_row, outcome_of
from fanin_sim.kernel.trace import add_line, report_violation

ACTION_OVERFLOW = uint64(8 * Counter.ACTION_OVERFLOW)
MAX_EVENTS = 200_000
CLEANUP_BOUND = 250_000_000_000  # ns; jobs have been left or have aged by then
OUTCOME_START, OUTCOME_SIZE = outcome_of(WORLD)
START = 1_000_000_000  # ns; late enough that no time before it is negative
MAX_ATTEMPTS = 9
FIRST_WAIT = 20_000_000  # ns before the second incarnation; four times as long before each further one


@compiled
def run_schedule(world):
    """Runs the schedule of the WORLD record at an address, which gets the outcome."""
    w = world_row(uint64(world), 0)
    prepare(w)
    may_form_again = True
    while w.violation == Violation.NOTHING and step(w) and check_bounds(w):
        if unfinished_rank(w) < 0:
            may_form_again = may_form_again and form_again(w)
            if not may_form_again and is_over(w):
                break
    if w.violation == Violation.NOTHING:
        check_end(w)
    if w.violation != Violation.NOTHING:
        add_line(w, EventKind.VIOLATION_FOUND, w.location, 0, 0, 0, 0, w.violation, 0)


@internal
def prepare(w):
    """Resets everything to the state before the schedule."""
    counters = w.vertex_count * w.vertex_count * OPCODES
    clear(w, OUTCOME_START, OUTCOME_SIZE, (counters, counters))
    w.now = START
    w.quiet_since = START
    for index in range(w.vertex_count):
        vertex = vertex_row(w.vertices, index)
        vertex.boots = 0
        vertex.events = 0
        vertex.links_down_until = 0
        vertex.is_faulty = 0
        vertex.downtime = 0
        restore_snapshot(w, index)
    for number in range(w.rank_count):
        rank = rank_row(w.ranks, number)
        rank.generation = 0
        rank.reads = 0
        rank.steps = 0
        start_rank(w, number, 0)


@internal
def step(w):
    """Handles the next event or timer. Returns False if there is none."""
    timer = next_timer(w)
    expires = due(vertex_row(w.vertices, timer)) if timer >= 0 else NEVER
    waiting = event_row(w.queue, 0).time if w.queue_size else NEVER
    if waiting <= expires and w.queue_size:
        handle_event(w)
    elif timer >= 0:
        w.now = max(w.now, expires)
        tick(w, timer)
    else:
        return False
    return True


@internal
def next_timer(w):
    """The device whose timer expires first; -1 if no timer runs."""
    first = -1
    for index in range(w.vertex_count):
        vertex = vertex_row(w.vertices, index)
        runs = vertex.alive and vertex.deadline < NEVER
        if runs and (first < 0 or due(vertex) < due(vertex_row(w.vertices, first))):
            first = index
    return first


@internal
def due(vertex):
    """When the timer of a device expires. A frozen device notices it later."""
    return max(vertex.deadline, vertex.frozen_until)


@internal
def handle_event(w):
    """Handles the first event of the queue. An event of a frozen device is put off."""
    event = event_row(w.queue, 0)
    w.now = max(w.now, event.time)
    kind, target, index, generation = event.kind, int64(event.target), int64(event.index), int64(event.generation)
    event_queue.drop_first(w)
    until = vertex_row(w.vertices, home_of(w, kind, target)).frozen_until
    if until > w.now and kind != EventKind.REBOOT:
        event_queue.put(w, until, kind, target, index, generation)
    elif kind == EventKind.PACKET:
        arrive_batch(w, target, index)
    elif kind == EventKind.RANK:
        advance(w, target, generation)
    elif kind == EventKind.READ_DONE:
        finish_read(w, target, index)
    elif kind == EventKind.REBOOT:
        reboot(w, target)
    elif kind == EventKind.SERVE and vertex_row(w.vertices, target).alive:
        serve(w, target)


@internal
def home_of(w, kind, target):
    return rank_row(w.ranks, target).vertex if kind in (EventKind.RANK, EventKind.READ_DONE) else target


@internal
def form_again(w):
    """Forms the job again under another key if all ranks have left and none has died. False: the schedule ends."""
    w.formed += 0 if w.refused else 1
    if w.formed == w.incarnations or not is_nobody_dead(w):
        return False
    w.incarnation += 1
    w.refused = 0
    w.shortage = 0
    if w.incarnation == MAX_ATTEMPTS:
        report_violation(w, Violation.JOIN_REFUSED, 0, w.formed)
        return False
    w.quiet_since = max(w.quiet_since, w.now)
    add_line(w, EventKind.NEXT_INCARNATION, 0, 0, 0, 0, 0, w.incarnation, 0)
    for number in range(w.rank_count):
        start_rank(w, number, FIRST_WAIT << (2 * (w.incarnation - 1)))
    return True


@internal
def is_nobody_dead(w):
    dead = 0
    for number in range(w.rank_count):
        dead += rank_row(w.ranks, number).state == RankState.DEAD
    for index in range(w.vertex_count):
        dead += vertex_row(w.vertices, index).alive == 0
    return dead == 0


@internal
def check_bounds(w):
    """Checks that requests end (I7) and jobs are forgotten (I4) in time after the last fault. False: all is over."""
    silence = w.now - w.quiet_since
    if w.accepts_corruption:  # requests need not end
        return silence <= w.bound
    if w.open_requests > 0 and silence > w.bound:
        report_violation(w, Violation.OPERATION_HANGS, open_rank(w), w.open_requests)
    elif silence > CLEANUP_BOUND and not is_over(w):
        if unfinished_rank(w) >= 0:
            report_violation(w, Violation.OPERATION_HANGS, unfinished_rank(w), 0)
        else:
            report_violation(w, Violation.SLOT_LEAKED, device_in_use(w), 0)
    if w.events > MAX_EVENTS:
        report_violation(w, Violation.LIVELOCK, 0, 0)
    return w.violation == Violation.NOTHING


@internal
def check_end(w):
    """Checks the state after the last event."""
    if not is_over(w) and not w.accepts_corruption:
        report_violation(
            w,
            Violation.OPERATION_HANGS if unfinished_rank(w) >= 0 else Violation.SLOT_LEAKED,
            unfinished_rank(w),
            w.open_requests,
        )
    for index in range(w.vertex_count):
        vertex = vertex_row(w.vertices, index)
        e = engine_at(vertex.base)
        if vertex.alive and load_u64(address_of(e) + e.counter_offset + ACTION_OVERFLOW):
            report_violation(w, Violation.ACTION_OVERFLOW, index, 0)


@internal
def is_over(w):
    """Whether all ranks have left, no packet is under way, and no device has a job."""
    return w.free_count == w.packet_room and unfinished_rank(w) < 0 and device_in_use(w) < 0


@internal
def unfinished_rank(w):
    """A rank that has neither left nor died; -1 if there is none."""
    for number in range(w.rank_count):
        state = rank_row(w.ranks, number).state
        if state != RankState.GONE and state != RankState.DEAD:
            return number
    return -1


@internal
def open_rank(w):
    """A live rank that waits for a request; -1 if there is none."""
    for number in range(w.rank_count):
        rank = rank_row(w.ranks, number)
        if rank.state != RankState.DEAD and rank.ended < rank.posted:
            return number
    return -1


@internal
def device_in_use(w):
    """A live device with a job or a slot in use; -1 if there is none."""
    for index in range(w.vertex_count):
        vertex = vertex_row(w.vertices, index)
        if not vertex.alive:
            continue
        e = engine_at(vertex.base)
        if e.slots_used:
            return index
        for number in range(int64(e.jobs)):
            if job_at(e, number).state != JobState.FREE:
                return index
    return -1
