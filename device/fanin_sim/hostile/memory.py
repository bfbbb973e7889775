"""The memory of a device under attack: regions with guards between them, and a shadow that the oracle writes.

A client's address is `BASE` plus the place in the array, so that packets do not depend on where the array lies.
"""

from random import Random
from typing import NamedTuple

import numpy as np

from fanin_nic.transport.transport import Transport
from fanin_wire.verbs import Access

BASE = 0x7000_0000_0000
GUARD = 64  # bytes between two regions that belong to none
OURS, FOREIGN = 7, 8  # protection domains: of the queue pairs that are attacked, and of those beside them
EVERYTHING = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ
ATOMIC = Access.LOCAL_WRITE | Access.REMOTE_ATOMIC
EVERYTHING |= Access.REMOTE_ATOMIC
REMOTE = Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC | Access.REMOTE_INVALIDATE

# Name: bytes, rights, protection domain.
REGIONS = {
    "source": (1024, Access(0), OURS),
    "inbox": (8192, Access.LOCAL_WRITE, OURS),
    "writable": (1024, int(Access.LOCAL_WRITE) | Access.REMOTE_WRITE, OURS),
    "readable": (1024, Access.REMOTE_READ, OURS),
    "atomic": (128, ATOMIC, OURS),
    "open": (1024, EVERYTHING, OURS),
    "revocable": (512, EVERYTHING | Access.REMOTE_INVALIDATE, OURS),
    "honest": (16384, EVERYTHING, FOREIGN),
}


class Region(NamedTuple):
    """A region as the oracle knows it. place: in the array."""

    name: str
    place: int
    length: int
    key: int
    domain: int

    @property
    def address(self) -> int:
        """The client's address of the first byte."""
        return BASE + self.place


class Memory:
    """The regions of a device, registered with its transport. `rights` by key changes as keys are invalidated."""

    def __init__(self, transport: Transport, random: Random) -> None:
        size = GUARD + sum(length + GUARD for length, _, _ in REGIONS.values())
        self.bytes = np.frombuffer(random.randbytes(size), np.uint8).copy()
        self.shadow = self.bytes.copy()
        self.start = int(self.bytes.ctypes.data)
        self.regions: dict[str, Region] = {}
        self.rights: dict[int, Access] = {}
        place = GUARD
        for name, (length, access, domain) in REGIONS.items():
            tag = random.randrange(1, 1 << 16)
            key = transport.register(BASE + place, length, access, domain=domain, tag=tag, mapped=self.start + place)
            self.regions[name] = Region(name, place, length, key, domain)
            self.rights[key] = access
            place += length + GUARD
        self._by_key = {region.key: region for region in self.regions.values()}

    def find(self, key: int, address: int, length: int, access: Access, domain: int) -> int | None:
        """Place of [address, address + length), if a region with this key allows the access; else None."""
        region = self._by_key.get(key)
        if region is None or region.domain != domain or access & ~self.rights[key]:
            return None
        place = address - BASE
        inside = region.place <= place and place + length <= region.place + region.length
        return place if inside else None

    def expect(self, place: int, data: bytes) -> None:
        self.shadow[place : place + len(data)] = np.frombuffer(data, np.uint8)

    def expected(self, place: int, length: int) -> bytes:
        return self.shadow[place : place + length].tobytes()

    def is_as_expected(self) -> bool:
        """Whether every byte, also of the guards, is as the oracle expects."""
        return bool(np.array_equal(self.bytes, self.shadow))

    def first_difference(self) -> str:
        """The first unexpected byte, in words."""
        place = int(np.flatnonzero(self.bytes != self.shadow)[0])
        inside = (r for r in self.regions.values() if r.place <= place < r.place + r.length)
        region = next(inside, None)
        return f"byte {place - region.place} of region {region.name}" if region else f"guard byte {place}"
