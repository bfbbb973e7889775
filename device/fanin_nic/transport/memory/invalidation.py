"""The end of a remote key by a SEND with invalidate (section 10.6)."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.memory.regions import KEY_BITS, find_region
from fanin_nic.transport.records.accessors import U64, region_at
from fanin_wire.verbs import Access

REMOTE = int(Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC | Access.REMOTE_INVALIDATE)


@internal
def invalidate(t, q, key):
    """Take the rights of the other side from a region that allows it; False if none does. The program keeps its own
    rights, and registers the memory again to give new ones."""
    index = int64(key) >> KEY_BITS
    if index >= int64(t.regions):
        return False
    region = region_at(t, U64(index))
    if not find_region(t, q, key, region.start, 0, Access.REMOTE_INVALIDATE):
        return False
    region.access = int64(region.access) & ~REMOTE
    return True
