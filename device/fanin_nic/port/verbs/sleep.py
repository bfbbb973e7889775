"""Before a lane sleeps: the device is asked for an event, and looked at once more."""

from __future__ import annotations

from numba import uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import call_library, load_u64
from fanin_nic.port.verbs.receive import give_back
from fanin_nic.port.verbs.records import verbs_at
from fanin_nic.port.verbs.send import reclaim


@compiled
def packets_wait(verbs_address):
    """Ask the device for an event when a datagram arrives. Returns whether there is one already.

    A queue pair that has failed to send says so here at the latest: whoever waits for an answer sleeps."""
    verbs = verbs_at(verbs_address)
    if verbs.broken:
        return False
    if verbs.waiting:
        return True
    reclaim(verbs, verbs.send_depth)
    if verbs.asked_event:
        queue, context = stack_bytes(8), stack_bytes(8)
        while call_library(verbs.take_event, verbs.channel, queue, context) == 0:
            call_library(verbs.acknowledge, load_u64(queue), uint64(1), uint64(0))
    verbs.asked_event = 1
    call_library(verbs.request_event, verbs.receive_queue, uint64(0), uint64(0))
    give_back(verbs)
    if verbs.broken:
        return False
    found = call_library(verbs.poll, verbs.receive_queue, uint64(1), verbs.completions)
    verbs.waiting = max(found, 0)
    return found > 0
