"""Which registered region an address lies in."""

from __future__ import annotations

import bisect
import threading
from typing import NamedTuple

from fanin.driver import ffi
from fanin_wire.abi import LKEY_PROCESS


class Region(NamedTuple):
    """Registered bytes of this process: [start, end) and the key the device knows them by."""

    start: int
    end: int
    lkey: int


class RegionTable:
    """The regions of one context, by address. Regions do not overlap: each is a mapping of its own.

    c: a uint64_t, the version.
    """

    def __init__(self) -> None:
        self._regions: list[Region] = []
        # Re-entrant: the garbage collector may free memory (`remove`) in the middle of `add`.
        self._lock = threading.RLock()
        self.c = ffi.new("uint64_t *")

    @property
    def version(self) -> int:
        """Another one, whenever a region comes or goes."""
        return int(self.c[0])

    def add(self, start: int, length: int, lkey: int) -> None:
        """Enter a region."""
        with self._lock:
            bisect.insort(self._regions, Region(start, start + length, lkey))
            self.c[0] += 1

    def remove(self, lkey: int) -> None:
        """Forget a region, if it is known."""
        with self._lock:
            self._regions = [region for region in self._regions if region.lkey != lkey]
            self.c[0] += 1

    def lkey_of(self, address: int, length: int) -> int:
        """Key of the region that holds all these bytes; LKEY_PROCESS (ordinary memory) if there is none."""
        regions = self._regions
        index = bisect.bisect_right(regions, address, key=lambda region: region.start) - 1
        if index >= 0 and address + length <= regions[index].end:
            return regions[index].lkey
        return LKEY_PROCESS
