"""A lane: the compiled loop that moves packets, work requests and data between port, engine and host interface.

`run` returns to Python only for Python's work: a message on the control socket, an answer to a JOIN or LEAVE, a signal,
an interrupt by another thread. Without work it yields for a while, then sleeps in poll until a packet, a doorbell, a
message or a timer. Each lane of a device runs this loop in its own thread; lane 0 splits the requests for all. Record
0012: why yields come before sleep, and for how long.
"""

import enum

from numba import int64

from fanin_nic.daemon.loop.action_executor import fence_results, perform_actions, turn_remotes, watch_port
from fanin_nic.daemon.loop.fair_turns import collectives_held, share_port
from fanin_nic.daemon.loop.lane_record import WQE_SCRATCH, lane_at
from fanin_nic.daemon.loop.ordinary import take_ordinary, turn_ordinary
from fanin_nic.daemon.loop.remote import take_messages
from fanin_nic.daemon.loop.sleep import is_interrupted, is_only_port, sleep, wait
from fanin_nic.daemon.loop.tapped import publish_tap, take_tapped
from fanin_nic.daemon.splitter.merge import has_overruns, merge
from fanin_nic.daemon.splitter.split import split
from fanin_nic.engine import events
from fanin_nic.engine.events import can_post
from fanin_nic.engine.records.accessors import U64, engine_at, queue_at
from fanin_nic.engine.records.tables import Counter
from fanin_nic.hostif.rings import beat, fetch
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import monotonic_ns, sched_yield
from fanin_nic.native.memory import address_of, load_u64, record_at
from fanin_nic.native.profile import Stage, lap
from fanin_nic.port.descriptors import PORT
from fanin_nic.port.receive import receive

YIELDS = 50  # before sleep; an idle core costs a wake-up of about 25 us
MIN_AWAKE = 50_000  # ns from work to sleep: on a core without other work 50 yields take a third of it
CONTROL_INTERVAL = 1_000_000  # ns between polls of the control socket while there is work
MAX_RUN = 50_000_000  # ns
RECEIVE_INTERVAL = 10_000  # ns between polls of a quiet port: each costs as much as a short message in a node
POSTS_PER_TURN = 32
SEGMENTS_PER_TURN = 512
JOBS_ABORTED = U64(Counter.JOBS_ABORTED * 8)  # bytes into the table of counters

port_at = record_at(PORT)


class Reason(enum.IntEnum):
    """Why `run` returns."""

    CONTROL = 1
    NOTICES = 2
    TIME = 3  # Python handles signals only after the loop has returned
    INTERRUPTED = 4  # another thread has called `interrupt`
    ENDED = 5  # one of several lanes: a job ended early, or must end in the other lanes too


@compiled
def run(lane_address):
    """Work until Python is needed; returns a Reason."""
    lane = lane_at(U64(lane_address))
    reason = work(lane)
    fence_results(lane)  # an answer to a LEAVE covers unsignaled requests
    return reason


@compiled
def work(lane):
    """Take turn after turn; returns a Reason."""
    idle, awake_until = 0, U64(0)
    lap(lane.profile, Stage.CONTROL)
    end = U64(monotonic_ns()) + U64(MAX_RUN)
    while True:
        now = U64(monotonic_ns())
        if turn(lane, now):
            idle, awake_until = 0, now + U64(MIN_AWAKE)
        else:
            idle += 1
            lap(lane.profile, Stage.LOOK)
        if lane.notice_count:
            return Reason.NOTICES
        if lane.host_doorbell and has_ended_job(lane):
            return Reason.ENDED
        if is_interrupted(lane):
            return Reason.INTERRUPTED
        if lane.remote_broken:
            return Reason.CONTROL
        if now >= lane.next_control:
            lane.next_control = now + U64(CONTROL_INTERVAL)
            beat(lane.doorbells, lane.doorbell_count, now // U64(CONTROL_INTERVAL))
            if wait(lane, 0) and not is_only_port(lane):
                return Reason.CONTROL
        if now >= end:
            return Reason.TIME
        if idle > YIELDS and now >= awake_until:
            woken = sleep(lane, now)
            lane.next_receive = U64(0)
            lap(lane.profile, Stage.SLEEP)
            if not woken:
                return Reason.CONTROL
            idle = 0
        elif idle:
            sched_yield()
            lap(lane.profile, Stage.YIELD)


@compiled
def has_ended_job(lane):
    """Whether the engine has ended a job since the last call, or a client's completion ring has overrun."""
    e = engine_at(lane.engine)
    aborted = load_u64(address_of(e) + e.counter_offset + JOBS_ABORTED)
    if aborted != lane.jobs_aborted:
        lane.jobs_aborted = aborted
        return True
    return lane.splitter != 0 and has_overruns(lane.splitter)


@compiled
def turn(lane, now):
    """Packets in, requests in, data, timers, actions out; then ordinary traffic. Returns whether there was work."""
    e = engine_at(lane.engine)
    work = take_packets(lane, e, now)
    if lane.remote_end:
        work += take_messages(lane)
    if lane.splitter:
        work += split(lane.splitter)
    work += count_stage(lane, take_requests(lane, e, now), Stage.POST)
    if lane.ordinary_end:
        share_port(lane, now)
    if not collectives_held(lane):
        work += count_stage(lane, events.serve(lane.engine, SEGMENTS_PER_TURN, now), Stage.READ_AND_REDUCE)
    work += perform_actions(lane, e, now)
    if now >= e.next_deadline:
        # The device was stopped or short of CPU: its neighbours were not silent.
        if now - e.next_deadline > e.keepalive:
            events.note_stall(lane.engine, now - e.next_deadline, now)
        events.tick(lane.engine, now)
        lap(lane.profile, Stage.TIMERS)
        work += 1 + perform_actions(lane, e, now)
    if lane.remote_end:
        work += turn_remotes(lane, e, now)
    if lane.ordinary_end:
        work += turn_ordinary(lane, now)
    if lane.splitter:
        work += merge(lane.splitter)
    if port_at(lane.port).tap:
        publish_tap(port_at(lane.port).tap)
    return work != 0


@compiled
def count_stage(lane, work, stage):
    """Returns `work`; if there was any, its time counts for `stage`."""
    if work:
        lap(lane.profile, stage)
    return work


@compiled
def take_packets(lane, e, now):
    """Give the engine all packets of one receive; returns how many."""
    if now < lane.next_receive:
        return 0
    packets = receive(lane.port)
    if packets:
        watch_port(lane, now)
    elif now >= lane.watch_port_until:
        lane.next_receive = now + U64(RECEIVE_INTERVAL)
    table, tap = port_at(lane.port).received_table, port_at(lane.port).tap
    taken = int64(0)
    while taken < packets:
        if tap:
            taken = take_tapped(lane, e, table, taken, int64(packets), tap, now)
        else:
            taken = events.packets(lane.engine, table, taken, int64(packets), now)
        if taken < packets:
            lap(lane.profile, Stage.REDUCE)
            perform_actions(lane, e, now)
    if packets:
        events.batch_end(lane.engine, now)
        lap(lane.profile, Stage.REDUCE)
        perform_actions(lane, e, now)
    if lane.transport and port_at(lane.port).ordinary:
        take_ordinary(lane, table, int64(packets), now)
    return int(packets)


@compiled
def take_requests(lane, e, now):
    """Post work requests from the send rings, queue after queue; returns how many. If the table of actions fills up,
    the next call begins with that queue, so that none waits for ever."""
    taken = 0
    wqe = address_of(lane) + WQE_SCRATCH
    first = int(lane.first_queue)
    for step in range(lane.queues):
        queue = (first + step) % int(lane.queues)
        ring = load_u64(lane.send_rings + U64(queue * 8))
        if not ring or not queue_at(e, queue).active:
            continue
        if e.action_count > e.actions // 2:
            lane.first_queue = queue
            break
        for _ in range(POSTS_PER_TURN):
            if e.action_count > e.actions // 2 or not can_post(e, queue) or not fetch(ring, wqe):
                break
            events.post(lane.engine, queue, wqe, now)
            taken += 1
    return taken


def prepare() -> None:
    """Compile `run`, or load it from the cache, for the argument type of `Device`."""
    run.compile((int64,))
