"""Checks the members that a PEER_LOST reports as missing.

A member may be reported if a fault has affected it: the device crashes, one of its ranks dies or leaves before the
others, or the device is frozen or its links are down for more than half of the detection time. A link that is down
affects both its ends: neither can tell which one is at fault. A device whose child is affected may be reported through
that child. A switch that was affected itself may report all behind the device above it: the job may have ended there
meanwhile, and to the switch an unknown job means that the device above has restarted.
"""

from numba import int64, uint64

from fanin_sim.fuzz.codes import Violation
from fanin_sim.fuzz.tables import rank_row, scope_row, vertex_row
from fanin_sim.jit import internal
from fanin_sim.kernel.trace import report_violation
from fanin_wire.abi import MAX_CHILDREN, Status

ONE, ZERO = uint64(1), uint64(0)
SCOPE_SHIFT = 56  # in the detail of the violation, above the named bits


@internal
def mark_faulty(w, index):
    """Marks a device as affected by a fault of its own or of a rank on it."""
    vertex_row(w.vertices, index).is_faulty = 1


@internal
def fail_rank(w, number):
    rank = rank_row(w.ranks, number)
    rank.has_failed = 1
    mark_faulty(w, rank.vertex)


@internal
def add_downtime(w, index, duration):
    """Adds a time (ns) during which a device is frozen or its links are down."""
    vertex_row(w.vertices, index).downtime += duration


@internal
def add_link_downtime(w, index, peer, duration):
    """Adds the downtime of links of a device to both ends. peer: the other end; -1: all neighbours."""
    add_downtime(w, index, duration)
    neighbours = vertex_row(w.vertices, index).neighbours
    for other in range(w.vertex_count):
        if other == peer or (peer < 0 and (neighbours >> uint64(other)) & ONE != ZERO):
            add_downtime(w, other, duration)


@internal
def may_be_reported(w, index):
    vertex = vertex_row(w.vertices, index)
    return vertex.is_faulty != 0 or vertex.downtime > w.detection // 2


@internal
def may_any_be_reported(w, vertices):
    """Whether a device of a bitmap may be reported as missing."""
    found = False
    for index in range(w.vertex_count):
        found = found or ((vertices >> uint64(index)) & ONE != ZERO and may_be_reported(w, index))
    return found


@internal
def have_all_failed(w, rank, named):
    """Whether all reported ranks of a node have died or left."""
    for bit in range(MAX_CHILDREN):
        if (named >> uint64(bit)) & ONE == ZERO:
            continue
        if bit >= rank.node_ranks or rank_row(w.ranks, rank.first_of_node + bit).has_failed == 0:
            return False
    return True


@internal
def may_all_be_reported(w, vertex, kind):
    """Whether all members of a scope may be reported: because of the device above them, or of the one that reports."""
    above = scope_row(vertex.scopes, kind - 1).parent
    if above >= 0 and may_be_reported(w, above):
        return True
    reporter = scope_row(vertex.scopes, kind - 2).parent if kind > 1 else -1
    return reporter >= 0 and may_be_reported(w, reporter)


@internal
def may_children_be_reported(w, scope, named):
    for bit in range(MAX_CHILDREN):
        if (named >> uint64(bit)) & ONE == ZERO:
            continue
        if bit >= scope.count or not may_any_be_reported(w, scope.child[bit]):
            return False
    return True


@internal
def is_report_correct(w, rank, kind, named):
    """Whether a rank may hear that these members are missing. An affected device may report anything outside. Within a
    node only ranks can be missing, and the device knows which."""
    vertex = vertex_row(w.vertices, rank.vertex)
    if vertex.scope_count > 0 and may_be_reported(w, rank.vertex):
        return True
    if named == ZERO or kind > vertex.scope_count:
        return False
    if kind == 0:
        return have_all_failed(w, rank, named)
    scope = scope_row(vertex.scopes, kind - 1)
    is_whole = named == ~ZERO >> (uint64(MAX_CHILDREN) - uint64(scope.count))
    return (is_whole and may_all_be_reported(w, vertex, kind)) or may_children_be_reported(w, scope, named)


@internal
def check_peer_lost(w, number, status, kind, named):
    """Checks a completion: PEER_LOST must report a member, and only members that may be reported."""
    if status != Status.PEER_LOST or w.accepts_corruption:
        return
    w.peer_lost_reports += 1
    if not is_report_correct(w, rank_row(w.ranks, number), kind, named):
        report_violation(w, Violation.WRONG_PEER_LOST, number, int64(uint64(kind) << uint64(SCOPE_SHIFT) | named))
