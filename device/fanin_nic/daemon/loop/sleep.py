"""Sleep: a lane without work waits in poll for a packet, a doorbell, a message, a signal or a timer."""

from fanin_nic.daemon.loop.lane_record import DESCRIPTORS, INTERRUPT_FLAG, POLLFDS
from fanin_nic.daemon.loop.ordinary import ordinary_waits
from fanin_nic.daemon.loop.remote import remotes_wait
from fanin_nic.daemon.splitter.merge import completions_wait
from fanin_nic.daemon.splitter.split import requests_wait as clients_wait
from fanin_nic.daemon.splitter.tables import drain_doorbell
from fanin_nic.engine.events import can_post
from fanin_nic.engine.records.accessors import U64, engine_at
from fanin_nic.hostif.rings import pending, set_sleeping
from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import EPOLL_EVENT_BYTES, POLLFD, POLLIN, epoll_wait, ppoll, stack_bytes
from fanin_nic.native.memory import address_of, load_acquire, load_u64, record_at, store_u64
from fanin_nic.port.descriptors import PORT
from fanin_nic.port.verbs import sleep as verbs_sleep
from fanin_nic.transport.records.accessors import transport_at

MAX_SLEEP = U64(10_000_000_000)  # ns
SECOND = U64(1_000_000_000)
RINGS = 64  # doorbells taken at a time
RINGS_SIZE = RINGS * EPOLL_EVENT_BYTES
POLLFD_SIZE = U64(POLLFD.itemsize)

pollfd_at = record_at(POLLFD)
port_at = record_at(PORT)


@compiled
def sleep(lane, now):
    """Sleep until something comes or a timer expires. False: Python is needed."""
    set_sleeping(lane.doorbells, lane.doorbell_count, 1)
    woken = not is_interrupted(lane)  # an earlier `wait` may have drained its doorbell
    longest = longest_sleep(lane.port) if woken and not something_waits(lane) else U64(0)
    if longest:
        deadline = min(engine_at(lane.engine).next_deadline, now + longest)
        if lane.ordinary_end:
            deadline = min(deadline, transport_at(lane.transport).next_deadline)
        ready = wait(lane, deadline - now if deadline > now else U64(0))
        woken = ready >= 0 and is_only_port(lane)
    set_sleeping(lane.doorbells, lane.doorbell_count, 0)
    return woken


@compiled
def something_waits(lane):
    """Whether clients have work. Those over RDMA come first: their messages fill their rings."""
    return (lane.remote_end != 0 and remotes_wait(lane)) or requests_wait(lane)


@compiled
def longest_sleep(port):
    """How many ns a lane may sleep; 0: packets have come. Sockets wake `wait` themselves."""
    verbs = port_at(port).verbs
    return min(verbs_sleep.longest_sleep(verbs), MAX_SLEEP) if verbs else MAX_SLEEP


@compiled
def is_interrupted(lane):
    """Whether another thread wants `run` to return."""
    return load_acquire(address_of(lane) + INTERRUPT_FLAG) != 0


@compiled
def requests_wait(lane):
    """Whether a send ring has a request, and its queue room for it, or other lanes have completed one."""
    if lane.ordinary_end and ordinary_waits(lane):
        return True
    if lane.splitter and (clients_wait(lane.splitter) or completions_wait(lane.splitter)):
        return True
    e = engine_at(lane.engine)
    for queue in range(lane.queues):
        ring = load_u64(lane.send_rings + U64(queue * 8))
        if ring and can_post(e, queue) and pending(ring):
            return True
    return False


@compiled
def wait(lane, longest):
    """Poll the port, the control server, the signals and the doorbells for up to `longest` ns; timers need less than a
    millisecond. Returns the number of ready descriptors; -1 after a signal."""
    place, timespec = address_of(lane) + POLLFDS, stack_bytes(16)
    store_u64(timespec, U64(longest) // SECOND)
    store_u64(timespec + U64(8), U64(longest) % SECOND)
    descriptors = (
        lane.receive_fd,
        lane.control_fd,
        lane.wake_fd,
        lane.lane_doorbell_fd,
        lane.doorbells_fd,
        lane.group_fd,
    )
    for index, descriptor in enumerate(descriptors):
        entry = pollfd_at(place + U64(index) * POLLFD_SIZE)
        entry.fd = descriptor
        entry.events = POLLIN
        entry.revents = 0
    ready = ppoll(place, DESCRIPTORS, timespec, U64(0))
    if pollfd_at(place + U64(3) * POLLFD_SIZE).revents:
        drain_doorbell(lane.lane_doorbell_fd)
    if pollfd_at(place + U64(4) * POLLFD_SIZE).revents:
        epoll_wait(lane.doorbells_fd, stack_bytes(RINGS_SIZE), RINGS, 0)
    return ready


@compiled
def is_only_port(lane):
    """Whether the last `wait` found only packets and doorbells."""
    place = address_of(lane) + POLLFDS
    return not pollfd_at(place + POLLFD_SIZE).revents and not pollfd_at(place + U64(2) * POLLFD_SIZE).revents
