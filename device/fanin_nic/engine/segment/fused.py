"""REDUCE: from the memory of ranks straight into the memory of ranks.

A message that only ranks of this node take part in needs no seg buffers. It goes block by block through one of them: a
block of each rank is computed into it, then it goes to every rank that wants it. So the memory reads and writes at the
same time, and what is in between never leaves the core.
"""

from __future__ import annotations

from fanin_nic.engine.actions import ACTION
from fanin_nic.engine.segment.arithmetic import (
    CLASS_ALL,
    accumulate,
    elements_of,
    is_computed_wide,
    kernel_address,
    settle_result,
)
from fanin_nic.engine.segment.contribute import contributor_class
from fanin_nic.engine.state import ONE, U64, ZERO, action_at, job_at, queue_at, slot_at, slot_index
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, call_kernel, copy
from fanin_nic.native.streaming import spread

# Bytes that are computed at a time. More cost fewer calls; but where they come from memory, and go there, it only reads
# and writes at the same time if they are few.
BLOCK, BLOCK_OF_MEMORY = U64(2048), U64(512)
REMOTE, ACTION_SIZE = U64(ACTION.fields["remote"][1]), U64(ACTION.itemsize)  # type: ignore[index]


@internal
def reduce(e, index):
    """Perform the REDUCE `index` of the table of actions."""
    action = action_at(e, index)
    job = job_at(e, queue_at(e, action.queue).job - 1)
    slot = slot_at(e, slot_index(job, action.position))
    sources, done, elements = U64(index) + ONE, ZERO, ZERO
    places = address_of(action_at(e, sources + U64(action.count))) + REMOTE
    past_caches = action.is_long != 0
    block = min(BLOCK_OF_MEMORY if past_caches else BLOCK, U64(job.chunk))  # as much as a seg buffer holds
    while done < U64(action.length):
        if done == ZERO or U64(action.length) - done < block:
            slot.length = min(block, U64(action.length) - done)
            elements = elements_of(e, slot)
        compute(e, slot, U64(action.payload), sources, int(action.count), done, elements)
        spread(places, ACTION_SIZE, int(action.targets), done, U64(action.payload), U64(slot.length), past_caches)
        done += U64(slot.length)


@internal
def compute(e, slot, target, sources, count, done, elements):
    """The result of the block behind the `done` first bytes, to `target`. elements: of a block."""
    copy(target, action_at(e, sources).remote + done, U64(slot.length))
    if contributor_class(slot.flags) != CLASS_ALL:  # it is the result
        return
    if is_computed_wide(e, slot.op, slot.dtype):
        for number in range(1, count):
            accumulate(e, slot, target, action_at(e, sources + U64(number)).remote + done, False)
    else:
        kernel = kernel_address(e, slot.op, slot.dtype)
        for number in range(1, count):
            call_kernel(kernel, target, action_at(e, sources + U64(number)).remote + done, elements)
    settle_result(e, slot, target, slot.contributions > ONE)
