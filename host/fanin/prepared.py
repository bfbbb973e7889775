"""Prepared: calls of one work request, made ready once, that the fast path does again and again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from fanin.buffers import address_of
from fanin.call import Call
from fanin.driver import ffi
from fanin.request import Request
from fanin.staging import Staged, Staging
from fanin.verbs import CollectiveWR


def prepared_to_c(call: Call, work: CollectiveWR, wqe: Any) -> Any:
    """A struct fanin_prepared: the request, and what the driver core copies before and after it."""
    prepared, staged = ffi.new("struct fanin_prepared *", {"wqe": wqe[0]}), call.staged
    if work.inline:
        prepared.source, prepared.source_length = work.address_list[0].source, work.source_bytes()
    elif staged is not None and staged.source is not None and call.source is not None:
        prepared.source, prepared.source_length = address_of(call.source), call.source.nbytes
        prepared.staged_source = staged.source.address
    if staged is not None and staged.destination is not None and call.destination is not None:
        prepared.destination, prepared.destination_length = address_of(call.destination), call.destination.nbytes
        prepared.staged_destination = staged.destination.address
    return prepared


class Repeated:
    """A call that is done on the same memory each time, which it keeps: a persistent one."""

    def __init__(self, call: Call, work: CollectiveWR, wqe: Any) -> None:
        self.c = prepared_to_c(call, work, wqe)
        self.entered: Request | None = None
        self._call, self._works = call, [work]

    def aim(self) -> None:
        """Its memory stays where it is."""

    def request(self, stream: Any) -> Request:
        """As a request of the usual kind."""
        return Request(stream, self._call, self._works)


class Remembered:
    """A call that can be done again, on memory that the arguments name. It keeps no array alive.

    `source`, `destination`, `result`: which argument is meant; None: none. `fresh`: shape and type of a result that is
    a new array each time.
    """

    def __init__(self, call: Call, values: tuple, work: CollectiveWR, wqe: Any) -> None:
        self.c = prepared_to_c(call, work, wqe)
        self.source, self.destination = argument(call.source, values), argument(call.destination, values)
        self.result = argument(call.result, values)
        self.fresh: tuple[tuple[int, ...], np.dtype] | None = None
        if call.destination is not None and self.destination is None:
            self.fresh = call.destination.shape, call.destination.dtype
        self.work = work
        # What is staged is so each time, in areas of the same size.
        self._staged_source, self._staged_destination = bool(self.c.staged_source), bool(self.c.staged_destination)
        self._is_staged = self._staged_source or self._staged_destination
        self._like = dataclasses.replace(call, source=None, destination=None, result=None, staged=None)

    def begin(self, values: tuple, staging: Staging) -> Attempt | None:
        """What this time takes; None if the device grants no more memory."""
        staged: Staged | None = None
        if self._is_staged:
            source = staging.lend(self.c.source_length) if self._staged_source else None
            destination = staging.lend(self.c.destination_length) if self._staged_destination else None
            staged = Staged(staging, source, destination)
            if (self._staged_source and source is None) or (self._staged_destination and destination is None):
                return None
        return Attempt(self, values, None if self.fresh is None else np.empty(*self.fresh), staged)

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

    def __init__(self, remembered: Remembered, values: tuple, new: np.ndarray | None, staged: Staged | None) -> None:
        self.remembered, self.c = remembered, remembered.c
        self.values, self.new, self.staged = values, new, staged
        self.entered: Request | None = None

    def aim(self) -> None:
        """Put the memory of this time into the request."""
        staged, new, prepared = self.staged, self.new, self.c
        if staged is not None and staged.source is not None:
            prepared.staged_source = prepared.wqe.address.source = staged.source.address
            prepared.wqe.source_lkey = staged.source.lkey
        if staged is not None and staged.destination is not None:
            prepared.staged_destination = prepared.wqe.address.destination = staged.destination.address
            prepared.wqe.destination_lkey = staged.destination.lkey
            if new is not None:
                prepared.destination = address_of(new)
        elif new is not None:
            prepared.wqe.address.destination = address_of(new)

    def request(self, stream: Any) -> Request:
        """As a request of the usual kind."""
        return Request(stream, self.remembered.call_of(self), [self.remembered.work])

    @property
    def result(self) -> Any:
        """What the program gets."""
        place = self.remembered.result
        return self.new if place is None else self.values[place]


def argument(memory: Any, values: Iterable[Any]) -> int | None:
    """Number of the argument that some memory is; None if it is none of them."""
    if memory is None:
        return None
    return next((place for place, value in enumerate(values) if value is memory), None)
