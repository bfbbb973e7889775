"""The end of a schedule: requests must end, and devices must forget the job, in bounded time."""

from numba import int64, uint64

from fanin_nic.engine.records.accessors import engine_at, job_at
from fanin_nic.engine.records.tables import Counter, JobState
from fanin_nic.native.memory import address_of, load_u64
from fanin_sim.fuzz.codes import RankState, Violation
from fanin_sim.fuzz.tables import rank_row, vertex_row
from fanin_sim.jit import internal
from fanin_sim.kernel.trace import report_violation

ACTION_OVERFLOW = uint64(8 * Counter.ACTION_OVERFLOW)
MAX_EVENTS = 200_000
CLEANUP_BOUND = 250_000_000_000  # ns; jobs have been left or have aged by then


@internal
def unfinished_rank(w):
    """A rank that has neither left nor died; -1 if there is none."""
    for number in range(w.rank_count):
        state = rank_row(w.ranks, number).state
        if state != RankState.GONE and state != RankState.DEAD:
            return number
    return -1


@internal
def is_nobody_dead(w):
    dead = 0
    for number in range(w.rank_count):
        dead += rank_row(w.ranks, number).state == RankState.DEAD
    for index in range(w.vertex_count):
        dead += vertex_row(w.vertices, index).alive == 0
    return dead == 0


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


@internal
def is_over(w):
    """Whether all ranks have left, no packet is under way, and no device has a job."""
    return w.free_count == w.packet_room and unfinished_rank(w) < 0 and device_in_use(w) < 0


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
def open_rank(w):
    """A live rank that waits for a request; -1 if there is none."""
    for number in range(w.rank_count):
        rank = rank_row(w.ranks, number)
        if rank.state != RankState.DEAD and rank.ended < rank.posted:
            return number
    return -1


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
