"""Relay: a long message goes through a little registered memory, part by part, while its rank waits.

Ordinary memory the device reads and writes by system calls, page after page, which takes longer than all the rest. The
rank that waits has a core to spare: it copies the next parts in, and the last ones out, while the device works on those
between. Only for calls that wait: nobody else is there to copy.

Here for calls that are new, or that have left the fast path; on it `core/calls.c` does the same.
"""

from __future__ import annotations

import numpy as np

from fanin.staging import Area, Place, Staged, Staging, StandIn, bytes_of

DEPTH = 4  # parts that are in registered memory at a time
# Bytes of a message whose parts are all there at a time, and end together. Where ranks and devices share cores, who
# copies takes the core from the device; so only what would not stay in the caches goes part by part.
TOGETHER = 1 << 20


class Relay(StandIn):
    """An area with a place for each of some parts; the result of a part comes to where its data were.

    part_length: bytes. parts: of the message. stages_source, stages_destination: whether that is ordinary memory.
    Whatever is done here may be done again, should Ctrl-C have interrupted it.
    """

    def __init__(
        self, staging: Staging, area: Area, part_length: int, parts: int, stages_source: bool, stages_destination: bool
    ) -> None:
        super().__init__(staging, [area], is_whole=True)
        self._area, self._part, self._depth = area, part_length, area.size // part_length
        self._stages_source, self._stages_destination = stages_source, stages_destination
        self._ended = 0  # parts
        self.by_parts = parts > self._depth
        self.signal_interval = 1 if self.by_parts else None  # each part ends by itself, and makes room

    def places(self) -> tuple[Place | None, Place | None]:
        """What stands in for source and destination."""
        place = Place(self._area.address, self._area.lkey, True, self.nbytes if self.by_parts else None)
        return place if self._stages_source else None, place if self._stages_destination else None

    def has_room(self, number: int) -> bool:
        """Whether a part may be posted: that before it in its place has ended."""
        return number < self._ended + self._depth

    def resume(self, ended: int) -> None:
        """So many parts have ended; their results have been seen to."""
        self._ended = max(self._ended, ended)

    def bring(self, number: int, source: np.ndarray | None) -> None:
        """Copy what the rank brings of a part."""
        if self._stages_source and source is not None:
            data = self._of_part(source, number)
            self._at(number)[: data.nbytes] = data

    def end_part(self, number: int, destination: np.ndarray | None) -> None:
        """A part is complete, and those before it: copy their results."""
        if self._stages_destination and destination is not None:
            for part in range(self._ended, number + 1):
                data = self._of_part(destination, part)
                data[:] = self._at(part)[: data.nbytes]
        self.resume(number + 1)

    def _of_part(self, memory: np.ndarray, number: int) -> np.ndarray:
        return bytes_of(memory)[number * self._part : (number + 1) * self._part]

    def _at(self, number: int) -> np.ndarray:
        return self._area.memory[number % self._depth * self._part :]


def stand_in(staging: Staging, source: int, destination: int, part_length: int | None) -> StandIn | None:
    """Registered memory for so many bytes of ordinary memory that are brought and wanted; None if there are none, or
    if no memory is to be had. part_length: that a call has which waits and goes in parts."""
    if part_length is not None and (source or destination):
        return _relay(staging, source, destination, part_length)
    if source == destination:  # a side is the whole message or the rank's own block, so it is the same blocks
        areas = (staging.area_for(source),) * 2
    else:
        areas = staging.area_for(source), staging.area_for(destination)
    if areas == (None, None):
        return None
    is_whole = all(area or not nbytes for area, nbytes in zip(areas, (source, destination), strict=True))
    return Staged(staging, *areas, is_whole)


def _relay(staging: Staging, source: int, destination: int, part_length: int) -> Relay | None:
    length = max(source, destination)
    parts = -(-length // part_length)
    area = staging.lend(part_length * (parts if length <= TOGETHER else DEPTH))
    return None if area is None else Relay(staging, area, part_length, parts, source > 0, destination > 0)
