"""Prepared: calls made ready once, that the driver core does again and again."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fanin import fastpath
from fanin.buffers import address_of
from fanin.call import SIGNAL_INTERVAL, Call
from fanin.driver import ffi, library
from fanin.relay import stand_in
from fanin.request import Request
from fanin.sameness import Sight
from fanin.staging import Place, Staging, StandIn
from fanin.verbs import CollectiveWR
from fanin.verbs.regions import RegionTable

if TYPE_CHECKING:
    from fanin.stream import Stream

Places = tuple[Place, Place]  # of source and destination
StandIns = tuple[Place | None, Place | None]
KEPT = 2 << 20  # bytes: areas that are no larger are kept for the next time


class Composer(Protocol):
    """What made the work requests of a call."""

    def wqe_of(self, work: CollectiveWR) -> Any:
        """One of them as a struct fanin_wqe."""

    def segment_of(self, work: CollectiveWR) -> int:
        """Bytes of its segments."""


class Order:
    """The work requests of a call, which differ only in what the driver core fills in, and the struct fanin_prepared
    that stands for them: each time has one of its own, aimed at its memory."""

    def __init__(self, call: Call, works: list[CollectiveWR], composer: Composer, own: Places) -> None:
        self.works, self._own = works, own
        self._c = c = ffi.new("struct fanin_prepared *", {"wqe": composer.wqe_of(works[0])[0]})
        c.parts, c.segment = len(works), composer.segment_of(works[0])
        c.length = sum(work.length for work in works)
        c.part_length = call.part_length or c.length
        self._inline = works[0].inline
        self._bytes = [0 if memory is None else memory.nbytes for memory in (call.source, call.destination)]
        self._aim(c, (None, None))

    def aimed(self, stand_ins: StandIns) -> Any:
        """A struct fanin_prepared for the memory of the call, or what the device finds in its place."""
        c = ffi.new("struct fanin_prepared *", self._c[0])
        if stand_ins != (None, None):
            self._aim(c, stand_ins)
        return c

    def _aim(self, c: Any, stand_ins: StandIns) -> None:
        wqe, own = c.wqe, self._own
        source, destination = stand_ins[0] or own[0], stand_ins[1] or own[1]
        wqe.source_lkey, wqe.address.source = source.lkey, source.address
        wqe.destination_lkey, wqe.address.destination = destination.lkey, destination.address
        sides = (c.source, own[0], source), (c.destination, own[1], destination)
        for (side, memory, place), nbytes in zip(sides, self._bytes, strict=True):
            side.memory, side.place = memory.address, place.address
            side.length = nbytes if place.stands_in else 0
            side.depth = c.parts if place.room is None else place.room // c.part_length
        if self._inline:
            c.source.length = self._bytes[0]
        c.signal_interval = SIGNAL_INTERVAL if source.room is None and destination.room is None else 1


class Repeated:
    """A call that is done on the same memory each time, which it keeps: a persistent one."""

    def __init__(self, call: Call, works: list[CollectiveWR], composer: Composer, regions: RegionTable) -> None:
        self._call, self._works = call, works
        self.c = Order(call, works, composer, call.own_places(regions)).aimed(call.stand_ins())
        self.entered: Request | None = None
        self.waiters = 0  # threads that wait for the last time

    def reset(self) -> None:
        """It is about to be done again: what became of it the last time is not taken for this time."""
        self.c.progress, self.c.posted, self.entered = fastpath.PREPARED, 0, None

    def request(self, stream: Any) -> Request:
        """As a request of the usual kind."""
        return Request(stream, self._call, self._works)


class Terms:
    """A call that is remembered without its memory: what all its times have in common. It keeps no array alive.

    `source`, `destination`, `result`: which argument is meant; None: none. `make`: a function that makes the array of
    a result that is a new one each time.
    """

    def __init__(self, call: Call, values: tuple) -> None:
        self.source, self.destination = argument(call.source, values), argument(call.destination, values)
        self.result = argument(call.result, values)
        self.make: Callable[[], np.ndarray] | None = None
        if call.destination is not None and self.destination is None:
            self.make = functools.partial(np.empty, call.destination.shape, call.destination.dtype)
        self._call = dataclasses.replace(call, source=None, destination=None, result=None, staged=None)

    def call_of(self, attempt: Attempt) -> Call:
        """The whole call of one time, with its memory."""
        values = attempt.values
        source = None if self.source is None else values[self.source]
        destination = attempt.new if self.destination is None else values[self.destination]
        call = self._call
        what, how = (call.name, call.row, call.sizes), (call.root, call.op, call.dtype)  # twice as fast as `replace`
        result = self.result_of(attempt)
        return Call(*what, source, destination, result, *how, call.timeout, call.fence, attempt.staged)

    def result_of(self, attempt: Attempt) -> Any:
        """What the program gets of one time."""
        return attempt.new if self.result is None else attempt.values[self.result]


PRIVATE = "_order", "_ordinary", "_part_length", "_regions", "_spare", "_staging", "_terms"


class Remembered:
    """A call that can be done again, on memory that the arguments name.

    version: of the table of regions that it was made with. follower: the other call that was done after it the last
    time; None: itself, or none. c: its struct fanin_repeat; address: of that.
    """

    __slots__ = "__weakref__", "address", "c", "follower", "limit", "sight", "version", *PRIVATE

    def __init__(
        self,
        call: Call,
        values: tuple,
        sight: Sight,
        works: list[CollectiveWR],
        stream: Stream,
        staging: Staging,
        own: Places,
        regions: RegionTable,
        version: int,
    ) -> None:
        self.sight, self.version = sight, version
        self.follower: Remembered | None = None
        self.limit = call.limit  # as of the call
        self._terms, self._order = Terms(call, values), Order(call, works, stream, own)
        self._staging = staging
        self._ordinary = (0, 0) if call.fence else call.ordinary_bytes(staging)
        self._part_length = call.part_length
        self._spare: list[Attempt] = []  # the last time, if it may serve for the next
        self._regions = regions  # so that its version lives as long
        self.c = ffi.new("struct fanin_repeat *", {"arguments": sight.c, "stream": stream.c, "regions": regions.c})
        self.c.version, self.c.spare, self.c.patience_ms = version, id(self._spare), fastpath.PATIENCE_MS
        self.c.result = -1 if self._terms.result is None else self._terms.result
        self.c.make = 0 if self._terms.make is None else id(self._terms.make)
        self.address = address(self.c)

    def begin(self, values: tuple, waits: bool) -> Attempt:
        """One time. waits: as of a call."""
        attempt = self._take_spare(waits) or Attempt(self._terms, self._order, self._stand_in(waits))
        attempt.values = values
        if self._terms.make is not None:
            attempt.write_to(self._terms.make())
        return attempt

    def _take_spare(self, waits: bool) -> Attempt | None:
        try:
            attempt = self._spare.pop()
        except IndexError:  # another thread has it, or a request that is under way
            return None
        if waits or attempt.staged is None or not attempt.staged.by_parts:
            return attempt
        self._spare.append(attempt)
        return None

    def _stand_in(self, waits: bool) -> StandIn | None:
        if self._ordinary == (0, 0):
            return None
        return stand_in(self._staging, *self._ordinary, self._part_length if waits else None)

    def end(self, attempt: Attempt) -> Any:
        """The result. It is done, and nothing of it was entered into any books: it can serve for another time."""
        result = self._terms.result_of(attempt)
        attempt.values, attempt.new = (), None
        if (attempt.stays or self._may_stay(attempt)) and not self._spare:
            self._spare.append(attempt)
        return result

    def _may_stay(self, attempt: Attempt) -> bool:
        staged = attempt.staged
        if staged is None:  # nothing needs to stand in; or there was no room, which the next time may find
            attempt.stays = self._ordinary == (0, 0)
        else:
            attempt.stays = staged.nbytes <= KEPT and staged.keep()
        return attempt.stays


class Attempt:
    """One time that a remembered call is done: its arguments, and what is made for it. It serves again only where the
    driver core has done all of it, and well.

    stays: whether it may wait for that. address: of `c`, its struct fanin_prepared.
    """

    __slots__ = ("_order", "_terms", "address", "c", "entered", "new", "staged", "stays", "values")

    def __init__(self, terms: Terms, order: Order, staged: StandIn | None) -> None:
        self._terms, self._order, self.staged = terms, order, staged
        self.c = order.aimed((None, None) if staged is None else staged.places())
        self.address = address(self.c)
        self.values: tuple = ()
        self.new: np.ndarray | None = None
        self.entered: Request | None = None
        self.stays = False

    def write_to(self, new: np.ndarray) -> None:
        """Its result is a new array."""
        self.new = new
        library().fanin_write_to(self.c, address_of(new))

    def request(self, stream: Any) -> Request:
        """As a request of the usual kind."""
        return Request(stream, self._terms.call_of(self), self._order.works)


def address(c: Any) -> int:
    """Of a struct that the driver core finds by it."""
    return int(ffi.cast("uintptr_t", c))


def is_one_message(call: Call, works: list[CollectiveWR]) -> bool:
    """Whether the driver core can do a call: it is one request, or parts of a message that are alike. Those of a call
    with a timeout are not, since each has less of it than the one before; behind a fence, only the first waits."""
    if len(works) == 1:
        return True
    return len(works) > 1 and call.part_length is not None and call.timeout is None and not call.fence


def argument(memory: Any, values: tuple) -> int | None:
    """Number of the argument that some memory is, the last if it is several (`out`); None if it is none of them."""
    if memory is None:
        return None
    return next((place for place in reversed(range(len(values))) if values[place] is memory), None)
