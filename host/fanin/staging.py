"""Staging: registered memory that stands in for a program's ordinary memory.

A device reads registered memory in place; of ordinary memory it reads and writes each segment by a system call. So what
a rank brings is copied into registered memory when its request is posted, and the result out of it when it is complete.
Only the rank knows: to the devices, and to the other ranks, all requests look alike.
"""

from __future__ import annotations

import os
import weakref
from collections import defaultdict

import numpy as np

from fanin.errors import FaninError, InvalidRequest
from fanin.verbs import MR, PD
from fanin.verbs.regions import RegionTable
from fanin_wire.abi import LKEY_PROCESS

VARIABLE = "FANIN_STAGING"  # the environment's: bytes of the longest message that is staged; 0: none
SMALLEST, LARGEST = 4 << 10, 4 << 20  # bytes of an area: a power of two. Longer messages are read where they are
REGION = 1 << 20  # bytes that are registered together, for areas that are not larger
MOST = 64 << 20  # bytes in all: what is beyond that is read where it is


def longest_staged() -> int:
    """Bytes of the longest message that is staged. InvalidRequest if the environment gives no number."""
    text = os.environ.get(VARIABLE, str(LARGEST))
    if not text.isdecimal():
        raise InvalidRequest(
            f"{VARIABLE} is {text!r}, not a number of bytes", remedy="Set it to a number, or unset it."
        )
    return int(text)


class Area:
    """Registered memory, lent to one request: `size` bytes of a region."""

    __slots__ = ("_region", "address", "lkey", "memory", "size")

    def __init__(self, region: MR, offset: int, size: int) -> None:
        self._region, self.size = region, size
        self.memory = np.frombuffer(region.buf, np.uint8, size, offset)
        self.address, self.lkey = region.address + offset, region.lkey


class Staging:
    """The areas of one connection to a device."""

    def __init__(self, pd: PD, regions: RegionTable) -> None:
        self._pd, self._regions = pd, regions
        self._largest = longest_staged()
        self._free: defaultdict[int, list[Area]] = defaultdict(list)
        self._registered = [0]  # bytes; less when a region goes, as those of failed requests do

    def area_for(self, memory: np.ndarray | None) -> Area | None:
        """Room for the bytes of an array; None where it is registered itself, has none, or has too many."""
        if memory is None or not 0 < memory.nbytes <= self._largest:
            return None
        if self._regions.lkey_of(memory.ctypes.data, memory.nbytes) != LKEY_PROCESS:
            return None
        return self.lend(memory.nbytes)

    def lend(self, nbytes: int) -> Area | None:
        """An area of at least so many bytes; None if there is no more room."""
        size = max(SMALLEST, 1 << (nbytes - 1).bit_length())
        if not self._free[size]:
            self._register(size)
        try:
            return self._free[size].pop()
        except IndexError:  # also where another thread was faster
            return None

    def _register(self, size: int) -> None:
        """More areas of a size, unless that is too much, for us or for the device."""
        length = max(size, REGION)
        if self._registered[0] + length > MOST:
            return
        try:
            region = MR(self._pd, length, listed=False)
        except FaninError:
            return
        self._registered[0] += length
        weakref.finalize(region, _subtract, self._registered, length)
        self._free[size] += [Area(region, offset, size) for offset in range(0, length, size)]

    def take_back(self, area: Area) -> None:
        """The device is done with an area."""
        self._free[area.size].append(area)


class Staged:
    """The areas of one call. They go back when nobody needs them any more; never, if the device may still write."""

    def __init__(self, staging: Staging, source: Area | None, destination: Area | None) -> None:
        self._staging, self.source, self.destination = staging, source, destination
        self.spoiled = False

    def bring(self, memory: np.ndarray | None) -> None:
        """Copy what the rank brings."""
        if self.source is not None and memory is not None:
            self.source.memory[: memory.nbytes] = _bytes(memory)

    def deliver(self, memory: np.ndarray | None) -> None:
        """Copy the result."""
        if self.destination is not None and memory is not None:
            _bytes(memory)[:] = self.destination.memory[: memory.nbytes]

    def __del__(self) -> None:
        for area in (self.source, self.destination):
            if area is not None and not self.spoiled:
                self._staging.take_back(area)


def _subtract(count: list[int], number: int) -> None:
    count[0] -= number


def _bytes(memory: np.ndarray) -> np.ndarray:
    return memory.reshape(-1).view(np.uint8)
