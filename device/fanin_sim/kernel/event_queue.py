"""The event queue, a binary heap ordered by time and insertion; and random numbers as hashes of a counter.

Each random number is a hash of the seed, its purpose, a place and a counter, and of nothing else. So a fault can be
removed from a schedule while all other faults stay in their places.
"""

from numba import int64, uint64

from fanin_nic.native.memory import address_of, copy
from fanin_sim.jit import internal
from fanin_sim.kernel.tables import EVENT, LIVELOCK, event_row
from fanin_sim.kernel.trace import report_violation

EVENT_SIZE = uint64(EVENT.itemsize)
GOLDEN = uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = uint64(0xBF58476D1CE4E5B9), uint64(0x94D049BB133111EB)
RATE_SCALE = 65536  # denominator of all rates

# Purposes; the kinds of faults are purposes, too.
WEIGHT, LATENCY, GAP, PAUSE = 32, 33, 34, 35


@internal
def put(w, time, kind, target, index, generation):
    if w.queue_size == w.queue_room:
        report_violation(w, LIVELOCK, target, 0)
        return
    place = w.queue_size
    event = event_row(w.queue, place)
    event.time = time
    event.order = w.order
    event.kind = kind
    event.target = target
    event.index = index
    event.generation = generation
    w.order += 1
    w.queue_size += 1
    while place > 0 and is_before(w, place, (place - 1) // 2):
        swap(w, place, (place - 1) // 2)
        place = (place - 1) // 2


@internal
def drop_first(w):
    w.queue_size -= 1
    if w.queue_size:
        swap(w, 0, w.queue_size)
    place = 0
    while 2 * place + 1 < w.queue_size:
        least = 2 * place + 1
        if least + 1 < w.queue_size and is_before(w, least + 1, least):
            least += 1
        if not is_before(w, least, place):
            return
        swap(w, place, least)
        place = least


@internal
def is_before(w, one, other):
    a, b = event_row(w.queue, one), event_row(w.queue, other)
    return a.time < b.time or (a.time == b.time and a.order < b.order)


@internal
def swap(w, one, other):
    """Swaps two entries. The one after the last serves as temporary storage."""
    a, b = address_of(event_row(w.queue, one)), address_of(event_row(w.queue, other))
    spare = address_of(event_row(w.queue, w.queue_room))
    copy(spare, a, EVENT_SIZE)
    copy(a, b, EVENT_SIZE)
    copy(b, spare, EVENT_SIZE)


@internal
def draw(seed, purpose, place, ordinal):
    """A number below 2^47, for one purpose, at one place, for the `ordinal`-th time."""
    word = mix(uint64(seed) + GOLDEN * uint64(purpose + 1))
    word = mix(word + GOLDEN * uint64(place + 1))
    return int64(mix(word + GOLDEN * uint64(ordinal + 1)) >> uint64(17))


@internal
def draw_below(seed, purpose, place, ordinal, limit):
    """A number below `limit`; 0 if the limit is 0."""
    return draw(seed, purpose, place, ordinal) % limit if limit > 0 else 0


@internal
def mix(word):
    """Mixes the bits of a word: the last steps of splitmix64."""
    word = (word ^ (word >> uint64(30))) * FIRST
    word = (word ^ (word >> uint64(27))) * SECOND
    return word ^ (word >> uint64(31))
