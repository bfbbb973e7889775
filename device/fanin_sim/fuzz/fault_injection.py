"""Fault injection: decides which random faults happen, or repeats a given list. Records all that happen."""

from numba import int64, uint64

from fanin_nic.native.memory import load_u32, store_u32
from fanin_sim.fuzz.tables import MAX_FAULTS, OPCODES, fault_row
from fanin_sim.jit import internal
from fanin_sim.kernel.counter_rng import RATE_SCALE, WEIGHT, draw

MICROSECOND, MILLISECOND = 1_000, 1_000_000
NO_VALUE = -1  # the fault does not happen


@internal
def number_of_link(w, source, target):
    return source * w.vertex_count + target


@internal
def next_ordinal(w, link, opcode):
    """How many packets of an opcode a link has carried, before this one."""
    place = w.sent + uint64(4 * (link * OPCODES + opcode))
    ordinal = int64(load_u32(place))
    store_u32(place, ordinal + 1)
    return ordinal


@internal
def record_fault(w, kind, source, target, opcode, ordinal, value, until):
    """Records a fault that ends at time `until` (ns)."""
    w.quiet_since = max(w.quiet_since, until)
    if w.fault_count < MAX_FAULTS:
        fault = fault_row(w.faults, w.fault_count)
        fault.kind = kind
        fault.source = source
        fault.target = target
        fault.opcode = opcode
        fault.ordinal = ordinal
        fault.value = value
        fault.time = w.now
        w.fault_count += 1


@internal
def given_fault_value(w, kind, source, target, opcode, ordinal):
    """The value of a fault of the given list; NO_VALUE if it is not in the list."""
    for index in range(w.given_count):
        fault = fault_row(w.given, index)
        same = fault.kind == kind and fault.source == source and fault.target == target
        if same and fault.opcode == opcode and fault.ordinal == ordinal:
            return fault.value
    return NO_VALUE


@internal
def weight(w, kind, place):
    """A factor for the rate of a fault at a place, in quarters: some links and opcodes have none, some many."""
    chosen = draw(w.seed, WEIGHT, place, kind) & 7
    return (0, 1, 1, 2, 4, 4, 8, 24)[chosen]


@internal
def fault_value(w, kind, source, target, opcode, ordinal):
    """The value of a fault at a packet or a rank, a random number of at least 0; NO_VALUE if it does not happen."""
    if w.is_given:
        return given_fault_value(w, kind, source, target, opcode, ordinal)
    if w.rate[kind] == 0 or w.budget <= 0:
        return NO_VALUE
    place = number_of_link(w, source, target) * OPCODES + opcode
    drawn = draw(w.seed, kind, place, ordinal)
    if (drawn % RATE_SCALE) * 4 >= w.rate[kind] * weight(w, kind, place):
        return NO_VALUE
    w.budget -= 1
    return drawn // RATE_SCALE


@internal
def removal_value(w, kind, source, target, opcode, ordinal):
    """As `fault_value`, for a fault that removes a packet: at most `most_in_a_row` times in a row."""
    value = fault_value(w, kind, source, target, opcode, ordinal)
    place = w.removed_in_a_row + uint64(4 * (number_of_link(w, source, target) * OPCODES + opcode))
    if value == NO_VALUE:
        return NO_VALUE
    if not w.is_given and int64(load_u32(place)) >= w.most_in_a_row:
        return NO_VALUE
    store_u32(place, load_u32(place) + 1)
    return value


@internal
def reset_removals(w, source, target, opcode):
    store_u32(w.removed_in_a_row + uint64(4 * (number_of_link(w, source, target) * OPCODES + opcode)), 0)
