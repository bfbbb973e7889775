"""Relay: a long message goes through a little registered memory, part by part, while its rank waits.

Ordinary memory the device reads and writes by system calls, page after page, which takes longer than all the rest. The
rank that waits has a core to spare: it copies the next parts in, and the last ones out, while the device works on those
between. Only for calls that wait: nobody else is there to copy.

Here for calls that are new, or that have left the fast path; on it `core/calls.c` does the same.
"""

from __future__ import annotations

import numpy as np

from fanin.staging import Area, Place, Staged, Staging, bytes_of

DEPTH = 4  # parts that are in registered memory at a time


class Relay:
    """The area of one call, a place for each of DEPTH parts; the result of a part comes to where its data were.

    part_length: bytes. stages_source, stages_destination: whether that is ordinary memory. Whatever is done here may be
    done again, should Ctrl-C have interrupted it.
    """

    signal_interval = 1  # each part ends by itself, and makes room

    def __init__(
        self, staging: Staging, area: Area, part_length: int, stages_source: bool, stages_destination: bool
    ) -> None:
        self._staging, self._area, self._part = staging, area, part_length
        self._stages_source, self._stages_destination = stages_source, stages_destination
        self._ended = 0  # parts
        self.spoiled = False

    def places(self) -> tuple[Place | None, Place | None]:
        """What stands in for source and destination."""
        place = Place(self._area.address, self._area.lkey, True, DEPTH * self._part)
        return place if self._stages_source else None, place if self._stages_destination else None

    def has_room(self, number: int) -> bool:
        """Whether a part may be posted: that before it in its place has ended."""
        return number < self._ended + DEPTH

    def resume(self, ended: int) -> None:
        """So many parts have ended; their results have been seen to."""
        self._ended = max(self._ended, ended)

    def bring(self, number: int, source: np.ndarray | None) -> None:
        """Copy what the rank brings of a part."""
        if self._stages_source and source is not None:
            data = self._of_part(source, number)
            self._at(number)[: data.nbytes] = data

    def end_part(self, number: int, destination: np.ndarray | None) -> None:
        """A part is complete: copy its result."""
        if self._stages_destination and destination is not None:
            data = self._of_part(destination, number)
            data[:] = self._at(number)[: data.nbytes]
        self.resume(number + 1)

    def end(self, destination: np.ndarray | None) -> None:
        """All parts are complete, and their results where they belong."""

    def _of_part(self, memory: np.ndarray, number: int) -> np.ndarray:
        return bytes_of(memory)[number * self._part : (number + 1) * self._part]

    def _at(self, number: int) -> np.ndarray:
        return self._area.memory[number % DEPTH * self._part :]

    def __del__(self) -> None:
        if not self.spoiled:
            self._staging.take_back(self._area)


def stand_in(staging: Staging, source: int, destination: int, part_length: int | None) -> Staged | Relay | None:
    """Registered memory for so many bytes of ordinary memory that are brought and wanted; None if there are none, or
    if no memory is to be had. part_length: that a call has which waits and goes in parts."""
    if part_length is not None and (source or destination):
        area = staging.lend(DEPTH * part_length)
        return None if area is None else Relay(staging, area, part_length, source > 0, destination > 0)
    areas = staging.area_for(source), staging.area_for(destination)
    return None if areas == (None, None) else Staged(staging, *areas)
