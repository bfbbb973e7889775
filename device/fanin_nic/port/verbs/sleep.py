"""Before a lane sleeps: the device is asked for an event, and polled once more."""

from numba import int64, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import call_library, load_u64
from fanin_nic.port.verbs.receive import give_back
from fanin_nic.port.verbs.records import verbs_at
from fanin_nic.port.verbs.send import reclaim
from fanin_nic.port.verbs.wake import fail, is_broken

NOT_AT_ALL = uint64(0)
RECOVERY_POLL_NS = uint64(50_000_000)  # ns
UNTIL_EVENT = uint64(1 << 62)


@compiled
def longest_sleep(verbs_address):
    """Ask the device for an event when a datagram arrives. Returns for how many ns a lane may sleep; 0: one has come.

    A queue pair that failed to send shows it here at the latest: a lane that waits for an answer sleeps. One that is
    being recovered makes no events, so it is polled now and then."""
    verbs = verbs_at(verbs_address)
    if not is_broken(verbs):
        reclaim(verbs, verbs.send_depth)
    _take_events(verbs)
    if is_broken(verbs):
        return RECOVERY_POLL_NS
    if verbs.waiting:
        return NOT_AT_ALL
    verbs.asked_event = 1
    call_library(verbs.request_event, verbs.receive_queue, uint64(0), uint64(0))
    give_back(verbs)
    if is_broken(verbs):
        return RECOVERY_POLL_NS
    found = int64(call_library(verbs.poll, verbs.receive_queue, uint64(1), verbs.completions))
    if found < 0:
        fail(verbs, -found)
        return RECOVERY_POLL_NS
    verbs.waiting = found
    return NOT_AT_ALL if found else UNTIL_EVENT


@compiled
def _take_events(verbs):
    """Empty the channel: an event left there would keep all awake."""
    if not verbs.asked_event:
        return
    verbs.asked_event = 0
    queue, context = stack_bytes(8), stack_bytes(8)
    while call_library(verbs.take_event, verbs.channel, queue, context) == 0:
        call_library(verbs.acknowledge, load_u64(queue), uint64(1), uint64(0))
