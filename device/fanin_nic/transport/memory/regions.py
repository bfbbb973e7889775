"""Memory regions: translation with protection (section 10.6).

A key, local and remote, is the row of its region and 16 random bits, so that guessed and old keys are refused.
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.records.accessors import U64, region_at

KEY_BITS = 16  # random bits of a key


@internal
def find_region(t, q, key, address, length, access):
    """1 + row of the region with a key, if it is in the queue pair's protection domain, contains [address, address +
    length) and allows `access`; else 0."""
    index = int64(key) >> KEY_BITS
    if index >= int64(t.regions) or key == 0:
        return 0
    region = region_at(t, U64(index))
    if region.key != key or region.domain != q.domain or int64(region.access) & access != access:
        return 0
    size = U64(length)
    if U64(address) < region.start or size > region.length or U64(address) - region.start > region.length - size:
        return 0
    return index + 1


@internal
def translate(t, found, address):
    """Device address of a client's address in the region `found` of `find_region`."""
    region = region_at(t, U64(found - 1))
    return region.mapped + (U64(address) - region.start)


@internal
def process_of(t, found):
    """0 if the region is mapped."""
    return int64(region_at(t, U64(found - 1)).process)
