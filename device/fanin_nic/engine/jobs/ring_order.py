"""The order of the nodes of a ring: where a segment starts, and which nodes it passes."""

from fanin_nic.engine.records.accessors import ONE, U64, ZERO, bit_of
from fanin_nic.native.compiled import internal
from fanin_wire.abi import JobFlag

FIXED_START = int(JobFlag.FIXED_START | JobFlag.REPRODUCIBLE_SHAPE)


@internal
def all_nodes(job):
    """Bitmap of all nodes; at most 64 form a ring."""
    return ~ZERO >> (U64(64) - U64(job.node_count))


@internal
def ring_start(job, sid):
    """Node at which a segment starts; it completes at the one before."""
    if job.flags & FIXED_START:
        return ZERO
    return (U64(sid) + ONE) % U64(job.node_count)


@internal
def next_node(job):
    """Bitmap of the next node of a ring."""
    return bit_of((job.node_index + 1) % job.node_count)


@internal
def nodes_before(job, sid):
    """Bitmap of the nodes that a segment passes before this one, from its start on."""
    nodes, node = ZERO, ring_start(job, sid)
    while node != U64(job.node_index):
        nodes |= bit_of(node)
        node = (node + ONE) % U64(job.node_count)
    return nodes
