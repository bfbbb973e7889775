"""Whom ranks are told are lost: only those whom a fault has struck, or what hangs on the same link or device.

A fault strikes a device when it crashes, when a rank on it dies or leaves before the others, or when it stands still or
its links are down for more than half of the detection time. A link has two ends; neither can tell which is at fault.
"""

from __future__ import annotations

from numba import int64, uint64

from fanin_sim.jit import internal
from fanin_sim.fuzz.codes import Violation
from fanin_sim.fuzz.tables import level_row, rank_row, vertex_row
from fanin_sim.fuzz.trace import blame
from fanin_wire.abi import MAX_CHILDREN, Status

PEER_LOST = int(Status["PEER_LOST"])
WRONG_BLAME = int(Violation.WRONG_BLAME)
ONE, ZERO = uint64(1), uint64(0)
KIND_SHIFT = 56  # in the detail of the violation, above the named bits


@internal
def strike_vertex(w, index):
    """A fault has struck a device, or a rank on it."""
    vertex_row(w.vertices, index).is_struck = 1


@internal
def fail_rank(w, number):
    """A rank dies, or leaves before the others."""
    rank = rank_row(w.ranks, number)
    rank.has_failed = 1
    strike_vertex(w, rank.vertex)


@internal
def suspend(w, index, duration):
    """A device stands still, or its links are down, for a time."""
    vertex_row(w.vertices, index).suspended += duration


@internal
def suspend_links(w, index, peer, duration):
    """The link from a device to a peer is down, or those to all its neighbours (peer -1)."""
    suspend(w, index, duration)
    neighbours = vertex_row(w.vertices, index).neighbours
    for other in range(w.vertex_count):
        if other == peer or (peer < 0 and (neighbours >> uint64(other)) & ONE != ZERO):
            suspend(w, other, duration)


@internal
def is_excused(w, index):
    """Whether it is no wonder that somebody takes a device for lost."""
    vertex = vertex_row(w.vertices, index)
    return vertex.is_struck != 0 or vertex.suspended > w.detection // 2


@internal
def is_any_excused(w, vertices):
    """Whether that holds for one of some devices, which hang on each other."""
    found = False
    for index in range(w.vertex_count):
        found = found or ((vertices >> uint64(index)) & ONE != ZERO and is_excused(w, index))
    return found


@internal
def is_each_rank_gone(w, rank, named):
    """Whether all named ranks of a node are gone."""
    for bit in range(MAX_CHILDREN):
        if (named >> uint64(bit)) & ONE == ZERO:
            continue
        if bit >= rank.node_ranks or rank_row(w.ranks, rank.first_of_node + bit).has_failed == 0:
            return False
    return True


@internal
def is_each_child_excused(w, level, named):
    """Whether it is no wonder of all named children, or of the device above them if it is all of them."""
    whole = named == ~ZERO >> (uint64(MAX_CHILDREN) - uint64(level.count))
    if whole and level.above >= 0 and is_excused(w, level.above):
        return True
    for bit in range(MAX_CHILDREN):
        if (named >> uint64(bit)) & ONE == ZERO:
            continue
        if bit >= level.count or not is_any_excused(w, level.child[bit]):
            return False
    return True


@internal
def is_just(w, rank, kind, named):
    """Whether a rank may be told that those are lost. One on a device that was struck itself sees the others gone; but
    if there are no other devices, only ranks can be gone, and their own device knows which."""
    vertex = vertex_row(w.vertices, rank.vertex)
    if vertex.level_count > 0 and is_excused(w, rank.vertex):
        return True
    if named == ZERO or kind > vertex.level_count:
        return False
    if kind == 0:
        return is_each_rank_gone(w, rank, named)
    return is_each_child_excused(w, level_row(vertex.levels, kind - 1), named)


@internal
def check_blame(w, number, status, kind, named):
    """A rank is told of an end: PEER_LOST must name somebody, and nobody who is well."""
    if status != PEER_LOST or w.may_write_wild:
        return
    w.accusations += 1
    if not is_just(w, rank_row(w.ranks, number), kind, named):
        blame(w, WRONG_BLAME, number, int64(uint64(kind) << uint64(KIND_SHIFT) | named))
