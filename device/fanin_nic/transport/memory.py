"""Memory: regions with their keys and rights, and the SGEs that a message is gathered from and scattered to.

A key, local and remote, is the row of its region and 16 random bits, so that guessed and old keys are refused.
"""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.output import add_piece, append
from fanin_nic.transport.records.accessors import U64, action_at, region_at, sge_address, sge_at
from fanin_nic.transport.records.actions import ActionKind
from fanin_wire.verbs import Access

KEY_BITS = 16  # random bits of a key
REMOTE = int(Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC | Access.REMOTE_INVALIDATE)
LOCAL_READ = 0  # every region allows it


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


@internal
def length_of(sges, number):
    total = 0
    for index in range(number):
        total += int64(sge_at(sge_address(sges, index)).length)
    return total


@internal
def allows(t, q, sges, number, access):
    """Whether all nonempty SGEs are in regions that allow an access."""
    for index in range(number):
        sge = sge_at(sge_address(sges, index))
        if sge.length and not find_region(t, q, sge.lkey, sge.address, sge.length, access):
            return False
    return True


@internal
def gather(t, q, send, sges, number, offset, length):
    """Give a SEND the bytes [offset, offset + length) of the SGEs as payload, after `allows`."""
    skip, left = int64(offset), int64(length)
    for index in range(number):
        if left == 0:
            break
        sge = sge_at(sge_address(sges, index))
        size = int64(sge.length)
        if skip >= size:
            skip -= size
            continue
        part, address = min(size - skip, left), sge.address + U64(skip)
        found = find_region(t, q, sge.lkey, address, part, LOCAL_READ)
        if found:
            add_piece(t, send, process_of(t, found), translate(t, found, address), part)
        left -= part
        skip = 0


@internal
def write(t, q, found, address, data, length):
    """Append the write of `length` bytes to an address in the region `found`."""
    action = action_at(t, U64(append(t, ActionKind.WRITE)))
    action.queue_pair = q.index
    action.process = process_of(t, found)
    action.remote = translate(t, found, address)
    action.payload = U64(data)
    action.length = length


@internal
def scatter(t, q, sges, number, offset, data, length):
    """Write `length` bytes to the SGEs, from byte `offset` of them on. False if they are too short or one is in
    no writable region; then a part may have been written."""
    skip, left, source = int64(offset), int64(length), U64(data)
    for index in range(number):
        if left == 0:
            break
        sge = sge_at(sge_address(sges, index))
        size = int64(sge.length)
        if skip >= size:
            skip -= size
            continue
        part, address = min(size - skip, left), sge.address + U64(skip)
        found = find_region(t, q, sge.lkey, address, part, Access.LOCAL_WRITE)
        if not found:
            return False
        write(t, q, found, address, source, part)
        source += U64(part)
        left -= part
        skip = 0
    return left == 0
