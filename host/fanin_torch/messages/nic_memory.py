"""Memory of long messages that the NIC reads or writes.

A message is copied to or from a place in a common registered region; or its own memory is registered this once, which
costs as much as to copy megabytes.
"""

import contextlib
from typing import NamedTuple

import numpy as np

from fanin.errors import FaninError
from fanin.memory.buffers import Arena
from fanin.verbs import MR, PD
from fanin.verbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ

COPIED = 1 << 23  # bytes of the longest message that is copied
REGION = 1 << 25  # bytes for all that are under way; without room a message is not copied


class Place(NamedTuple):
    """Where the NIC has a message. start: in the common region; None: in the message's own memory."""

    address: int
    region: MR
    start: int | None


class NicMemory:
    """Of one device connection. The caller holds a lock."""

    def __init__(self, pd: PD) -> None:
        self._pd, self._arena = pd, Arena(REGION)
        self._region: MR | None = None  # made for the first message that is copied

    def of_source(self, array: np.ndarray) -> Place:
        """Let peers read what the array holds now."""
        place = self._place(array, IBV_ACCESS_REMOTE_READ)
        if place.start is not None:
            self._bytes(place.start, array.nbytes)[:] = array
        return place

    def of_destination(self, array: np.ndarray) -> Place:
        """For what is read from peers; `copy_to` follows."""
        return self._place(array, IBV_ACCESS_LOCAL_WRITE)

    def copy_to(self, array: np.ndarray, place: Place) -> None:
        """Copy what has come to the program's array."""
        if place.start is not None:
            array[:] = self._bytes(place.start, array.nbytes)

    def release(self, place: Place, length: int) -> None:
        """The NIC is done with the place."""
        if place.start is not None:
            self._arena.give_back(place.start, length)
            return
        with contextlib.suppress(FaninError):  # the device is gone
            place.region.close()

    def _place(self, array: np.ndarray, access: int) -> Place:
        region = self._common_region() if array.nbytes <= COPIED else None
        if region is not None and (start := self._arena.take(array.nbytes)) is not None:
            return Place(region.address + start, region, start)
        address = array.ctypes.data
        return Place(address, MR(self._pd, array.nbytes, access, address=address), None)

    def _common_region(self) -> MR | None:
        """None if the device has no room for it."""
        if self._region is None:
            with contextlib.suppress(FaninError):
                self._region = MR(self._pd, REGION, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
        return self._region

    def _bytes(self, start: int, length: int) -> np.ndarray:
        assert self._region is not None
        return np.frombuffer(self._region.buf, np.uint8, length, start)
