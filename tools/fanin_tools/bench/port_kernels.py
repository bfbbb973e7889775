"""The compiled ends of a stream of packets. The sender keeps a window of what the receiver counts in shared memory, so
that no packet is lost for want of buffers."""

from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import monotonic_ns, sched_yield
from fanin_nic.native.memory import load_acquire, store_release
from fanin_nic.port.receive import receive
from fanin_nic.port.transmit import transmit

TIMEOUT_NS = 2_000_000_000


@compiled
def send_stream(port, actions, headers, batch, batches, window, received):
    """Send all batches. Returns nanoseconds from the first packet sent to the last received; -1 after a timeout."""
    start = monotonic_ns()
    for number in range(1, batches + 1):
        if not _await_received(received, int64(number * batch - window)):
            return int64(-1)
        transmit(port, actions, headers, uint32(batch))
    if not _await_received(received, int64(batch * batches)):
        return int64(-1)
    return int64(monotonic_ns() - start)


@compiled
def _await_received(received, count):
    """False after a timeout."""
    deadline = monotonic_ns() + TIMEOUT_NS
    while int64(load_acquire(received)) < count:
        if monotonic_ns() > deadline:
            return False
        sched_yield()
    return True


@compiled
def receive_stream(port, total, received):
    """Receive `total` packets. Returns how many came, also after a timeout."""
    found, deadline = int64(0), monotonic_ns() + TIMEOUT_NS
    while found < total and monotonic_ns() < deadline:
        packets = receive(port)
        if packets:
            found += int64(packets)
            store_release(uint64(received), uint32(found))
            deadline = monotonic_ns() + TIMEOUT_NS
        else:
            sched_yield()
    return found
