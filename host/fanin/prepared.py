"""Prepared: calls made ready once, that the driver core does again and again."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from fanin.buffers import address_of
from fanin.call import SIGNAL_INTERVAL, Call
from fanin.driver import ffi
from fanin.relay import Relay, stand_in
from fanin.request import Request
from fanin.staging import Place, Staged, Staging
from fanin.verbs import CollectiveWR
from fanin.verbs.regions import RegionTable
from fanin_wire.abi import LKEY_PROCESS

Places = tuple[Place, Place]  # of source and destination
KEPT = 64 << 10  # bytes: what stands in for no more than that is kept for the next time


class Composer(Protocol):
    """What made the work requests of a call."""

    def wqe_of(self, work: CollectiveWR) -> Any:
        """One of them as a struct fanin_wqe."""

    def segment_of(self, work: CollectiveWR) -> int:
        """Bytes of its segments."""


class Order:
    """The struct fanin_prepared of a call, `c`, and the work requests that it stands for, which differ only in what the
    driver core fills in."""

    def __init__(self, call: Call, works: list[CollectiveWR], composer: Composer) -> None:
        self.works = works
        self.c = ffi.new("struct fanin_prepared *", {"wqe": composer.wqe_of(works[0])[0]})
        self.c.parts, self.c.segment = len(works), composer.segment_of(works[0])
        self.c.length = sum(work.length for work in works)
        self.c.part_length = call.part_length or self.c.length
        self._inline = works[0].inline
        self._bytes = [0 if memory is None else memory.nbytes for memory in (call.source, call.destination)]

    def aim(self, own: Places, stand_ins: tuple[Place | None, Place | None] = (None, None)) -> None:
        """Name the memory of one time: the program's, and what the device finds in its place."""
        c, wqe = self.c, self.c.wqe
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
        self._call, self._order = call, Order(call, works, composer)
        self.c = self._order.c
        self.entered: Request | None = None
        self._order.aim(call.own_places(regions), call.stand_ins())

    def aim(self) -> None:
        """Its memory stays where it is."""

    def request(self, stream: Any) -> Request:
        """As a request of the usual kind."""
        return Request(stream, self._call, self._order.works)


class Remembered:
    """A call that can be done again, on memory that the arguments name. It keeps no array alive.

    `source`, `destination`, `result`: which argument is meant; None: none. `fresh`: shape and type of a result that is
    a new array each time.
    """

    def __init__(
        self, call: Call, values: tuple, works: list[CollectiveWR], composer: Composer, staging: Staging, own: Places
    ) -> None:
        self.order, self.own = Order(call, works, composer), own
        self.source, self.destination = argument(call.source, values), argument(call.destination, values)
        self.result = argument(call.result, values)
        self.fresh: tuple[tuple[int, ...], np.dtype] | None = None
        if call.destination is not None and self.destination is None:
            self.fresh = call.destination.shape, call.destination.dtype
        self._ordinary = (0, 0) if call.fence else call.ordinary_bytes(staging)
        self._part_length = call.part_length
        self._moves = self.fresh is not None or self._ordinary != (0, 0)  # whether its memory is another each time
        self._keeps = max(self._ordinary) <= KEPT
        self._spare: list[Staged] = []  # what stood in the last time, if it is kept
        self._aimed: Callable[[], object] = _nothing  # what the order names in place of the program's memory
        self._like = dataclasses.replace(call, source=None, destination=None, result=None, staged=None)
        self.order.aim(own)

    def begin(self, values: tuple, staging: Staging, waits: bool) -> Attempt:
        """What this time takes. waits: as of a call."""
        staged: Staged | Relay | None = None
        if self._ordinary != (0, 0):
            try:
                staged = self._spare.pop()
            except IndexError:  # another thread has it, or a request that is under way
                staged = stand_in(staging, *self._ordinary, self._part_length if waits else None)
        return Attempt(self, values, None if self.fresh is None else np.empty(*self.fresh), staged)

    def aim(self, attempt: Attempt) -> None:
        """Put the memory of one time into the request."""
        staged = attempt.staged
        if not self._moves or (self.fresh is None and staged is not None and self._aimed() is staged):
            return
        source, destination = self.own
        if attempt.new is not None:
            destination = Place(address_of(attempt.new), LKEY_PROCESS)
        self._aimed = _nothing  # Ctrl-C may come amid the next line
        self.order.aim((source, destination), staged.places() if staged else (None, None))
        if staged is not None:
            self._aimed = weakref.ref(staged)

    def keep(self, attempt: Attempt) -> None:
        """It is done, and nothing was entered into any books: what stood in for its memory can do so again."""
        staged = attempt.staged
        if isinstance(staged, Staged) and self._keeps and not self._spare and staged.keep(*self._ordinary):
            self._spare.append(staged)

    @property
    def limit(self) -> float | None:
        """As of the call."""
        return self._like.limit

    def call_of(self, attempt: Attempt) -> Call:
        """The whole call, with its memory."""
        values = attempt.values
        source = None if self.source is None else values[self.source]
        destination = attempt.new if self.destination is None else values[self.destination]
        like = self._like
        what, how = (like.name, like.row, like.sizes), (like.root, like.op, like.dtype)  # twice as fast as `replace`
        return Call(*what, source, destination, attempt.result, *how, like.timeout, like.fence, attempt.staged)


class Attempt:
    """One time that a remembered call is done: its arguments, and what is made for it."""

    __slots__ = ("c", "entered", "new", "remembered", "staged", "values")

    def __init__(
        self, remembered: Remembered, values: tuple, new: np.ndarray | None, staged: Staged | Relay | None
    ) -> None:
        self.remembered, self.c = remembered, remembered.order.c
        self.values, self.new, self.staged = values, new, staged
        self.entered: Request | None = None

    def aim(self) -> None:
        """Put the memory of this time into the request."""
        self.remembered.aim(self)

    def request(self, stream: Any) -> Request:
        """As a request of the usual kind."""
        return Request(stream, self.remembered.call_of(self), self.remembered.order.works)

    @property
    def result(self) -> Any:
        """What the program gets."""
        place = self.remembered.result
        return self.new if place is None else self.values[place]


def _nothing() -> None:
    """Like a weak reference to what is gone."""


def is_one_message(call: Call, works: list[CollectiveWR]) -> bool:
    """Whether the driver core can do a call: it is one request, or parts of a message that are alike. Those of a call
    with a timeout are not, since each has less of it than the one before; behind a fence, only the first waits."""
    if len(works) == 1:
        return True
    return len(works) > 1 and call.part_length is not None and call.timeout is None and not call.fence


def argument(memory: Any, values: Iterable[Any]) -> int | None:
    """Number of the argument that some memory is; None if it is none of them."""
    if memory is None:
        return None
    return next((place for place, value in enumerate(values) if value is memory), None)
