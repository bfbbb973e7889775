"""Staging: registered memory that stands in for a program's ordinary memory.

A device reads registered memory in place; of ordinary memory it reads and writes each segment by a system call. So what
a rank brings is copied into registered memory when its request is posted, and the result out of it when it is complete.
Only the rank knows: to the devices, and to the other ranks, all requests look alike.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fanin.errors import FaninError, InvalidRequest
from fanin.verbs import MR, PD
from fanin.verbs.regions import RegionTable
from fanin_wire.abi import LKEY_PROCESS

VARIABLE = "FANIN_STAGING"  # the environment's: bytes of the longest message that is staged as a whole; 0: nothing is
SMALLEST, LARGEST = 4 << 10, 4 << 20  # bytes of an area: a power of two
REGION = 1 << 20  # bytes that are registered together, for areas that are not larger
MOST = 64 << 20  # bytes in all: what is beyond that is read where it is
MOST_KEPT = 16 << 20  # bytes of them that wait for the next time of a call; REGION and more only while half is free


def longest_staged() -> int:
    """Bytes of the longest message that is staged. InvalidRequest if the environment gives no number."""
    text = os.environ.get(VARIABLE, str(LARGEST))
    if not text.isdecimal():
        raise InvalidRequest(
            f"{VARIABLE} is {text!r}, not a number of bytes", remedy="Set it to a number, or unset it."
        )
    return int(text)


class Place(NamedTuple):
    """Where the source or destination of a call lies, for the device.

    lkey: of the region, or LKEY_PROCESS. stands_in: whether it is memory of ours. room: bytes, where that is less than
    the call has: what does not fit comes to its beginning again.
    """

    address: int
    lkey: int
    stands_in: bool = False
    room: int | None = None

    def at(self, offset: int) -> int:
        """Address of byte `offset` of the call."""
        return self.address + (offset if self.room is None else offset % self.room)

    @property
    def is_ordinary(self) -> bool:
        """Whether it is the program's, and not registered."""
        return self.lkey == LKEY_PROCESS


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
        self._kept = 0  # bytes
        self._lock = threading.RLock()  # of the line above; again where the end of what is kept comes amid it

    def ordinary_bytes(self, memory: np.ndarray) -> int:
        """Bytes of an array that is to be staged; 0 if it is registered itself, or if nothing is to be."""
        if not self._largest or self._regions.lkey_of(memory.ctypes.data, memory.nbytes) != LKEY_PROCESS:
            return 0
        return memory.nbytes

    def area_for(self, nbytes: int) -> Area | None:
        """Room for so many bytes of ordinary memory; None where there are none, or too many, or no more room."""
        return self.lend(nbytes) if 0 < nbytes <= self._largest else None

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
            self._free.clear()  # of other sizes
        if self._registered[0] + length > MOST:
            return
        try:
            region = MR(self._pd, length, listed=False)
        except FaninError:
            return
        self._registered[0] += length
        weakref.finalize(region, _subtract, self._registered, length)
        self._free[size] += [Area(region, offset, size) for offset in range(0, length, size)]

    def keep(self, nbytes: int) -> bool:
        """Whether areas of so many bytes may stay with a call when it has ended."""
        with self._lock:
            if self._kept + nbytes > (MOST_KEPT if nbytes < REGION else MOST_KEPT // 2):
                return False
            self._kept += nbytes
        return True

    def let_go(self, nbytes: int) -> None:
        """They go."""
        with self._lock:
            self._kept -= nbytes

    def take_back(self, area: Area) -> None:
        """The device is done with an area."""
        self._free[area.size].append(area)


class StandIn:
    """What stands in for the memory of one call: areas, which go back when nobody needs them any more; never, if the
    device may still write.

    is_whole: whether it stands in for all that is to be. nbytes: of the areas. by_parts: whether the rank must wait,
    and pass one part after the other on. signal_interval: how many of the call's work requests may end with one
    completion; None: it does not matter.
    """

    by_parts = False
    signal_interval: int | None = None
    spoiled = _kept = False
    _areas: tuple[Area, ...] = ()  # also of one that Ctrl-C has kept from being made

    def __init__(self, staging: Staging, areas: Iterable[Area], is_whole: bool) -> None:
        self._staging, self.is_whole = staging, is_whole
        self._areas = tuple(areas)
        self.nbytes = sum(area.size for area in self._areas)

    def keep(self) -> bool:
        """Whether it may stand in again, the next time that the same call is made."""
        if not self._kept:
            self._kept = self.is_whole and self._staging.keep(self.nbytes)
        return self._kept

    def places(self) -> tuple[Place | None, Place | None]:
        """What stands in for source and destination."""
        raise NotImplementedError

    def has_room(self, number: int) -> bool:
        """Whether work request `number` of the call may be posted."""
        return True

    def resume(self, ended: int) -> None:
        """So many have ended; their results have been seen to."""

    def bring(self, number: int, source: np.ndarray | None) -> None:
        """Work request `number` is about to be posted: copy what the rank brings for it."""

    def end_part(self, number: int, destination: np.ndarray | None) -> None:
        """It is complete, and so are those before it."""

    def end(self, destination: np.ndarray | None) -> None:
        """All are."""

    def __del__(self) -> None:
        if self._kept:
            self._staging.let_go(self.nbytes)
        for area in () if self.spoiled else self._areas:
            self._staging.take_back(area)


class Staged(StandIn):
    """An area for all that a call brings, and one for all that it wants. They are one if it is the same blocks: a
    segment of the result is written when its data have been read, and half as much memory is in the caches."""

    def __init__(self, staging: Staging, source: Area | None, destination: Area | None, is_whole: bool) -> None:
        super().__init__(staging, {id(area): area for area in (source, destination) if area}.values(), is_whole)
        self.source, self.destination = source, destination

    def places(self) -> tuple[Place | None, Place | None]:
        """What stands in for source and destination."""
        return _place(self.source), _place(self.destination)

    def bring(self, number: int, source: np.ndarray | None) -> None:
        """Before the first: all that the rank brings."""
        if number == 0 and self.source is not None and source is not None:
            self.source.memory[: source.nbytes] = bytes_of(source)

    def end(self, destination: np.ndarray | None) -> None:
        """Copy the result."""
        if self.destination is not None and destination is not None:
            bytes_of(destination)[:] = self.destination.memory[: destination.nbytes]


def _subtract(count: list[int], number: int) -> None:
    count[0] -= number


def _place(area: Area | None) -> Place | None:
    return None if area is None else Place(area.address, area.lkey, stands_in=True)


def bytes_of(memory: np.ndarray) -> np.ndarray:
    """A contiguous array as a flat one of its bytes."""
    return memory.reshape(-1).view(np.uint8)
