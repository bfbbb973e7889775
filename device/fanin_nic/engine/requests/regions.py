"""Memory regions: protection and translation, from (client, lkey, address, length, access) to a device address."""

from fanin_nic.engine.records.accessors import U64, ZERO, region_at
from fanin_nic.native.compiled import internal

MAPPED = 0


@internal
def find_region(e, client, lkey, address, length, access):
    """1 + row of the region that allows this access; 0: wrong key, bounds or rights."""
    for index in range(e.regions):
        region = region_at(e, index)
        if region.client == client + 1 and region.lkey == lkey:
            inside = address >= region.start and U64(length) <= region.length
            inside = inside and address - region.start <= region.length - U64(length)
            return index + 1 if inside and region.access & access == access else 0
    return 0


@internal
def translate(e, region, address):
    """Device address of a client's address: in the mapping of the region; unmapped, the address itself."""
    if region.mapped == ZERO:
        return address
    return region.mapped + (address - region.start)


@internal
def process_of(region, client):
    """0 if the region is mapped, else 1 + the client whose memory it is, here or by RDMA."""
    return client + 1 if region.mapped == ZERO else MAPPED


@internal
def add_region(e, client, lkey, start, length, access, mapped):
    """False: the table is full, or the client has the key already."""
    free = -1
    for index in range(e.regions):
        region = region_at(e, index)
        if region.client == client + 1 and region.lkey == lkey:
            return False
        if region.client == 0 and free < 0:
            free = index
    if free < 0:
        return False
    region = region_at(e, free)
    region.client = client + 1
    region.lkey = lkey
    region.start = start
    region.length = length
    region.access = access
    region.mapped = mapped
    return True


@internal
def remove_region(e, client, lkey):
    """False: the client has no such region."""
    for index in range(e.regions):
        region = region_at(e, index)
        if region.client == client + 1 and region.lkey == lkey:
            region.client = 0
            region.mapped = ZERO
            return True
    return False
