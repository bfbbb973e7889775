"""Direct: a blocking collective that was done before is done again by one call of the driver core.

Most of what a short collective costs on the host is the making of its request: checks of the arguments, plan, work
request, bookkeeping. So what came of them is kept, to be found by the arguments: an array counts as the same if it is
the same memory, with the same shape and type. Where anything else is under way, all goes its usual way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from fanin.buffers import address_of
from fanin.call import Call, Deferred
from fanin.driver import ffi
from fanin.request import Request
from fanin.verbs import CollectiveWR
from fanin.verbs.regions import RegionTable

DEADLINE_GRACE = 2.0  # seconds that the device has to report a deadline that has passed
RECENT = 256  # calls that are kept
SIMPLE = frozenset({str, int, float, bool, type(None)})
POINTER = ffi.typeof("uintptr_t")
from_buffer, cast = ffi.from_buffer, ffi.cast

Key = tuple[Any, ...]
Arguments = Callable[..., Call | Deferred]


class Fresh(NamedTuple):
    """The result is a new array each time; `offset`: bytes from its start to where the device writes."""

    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int


class Prepared:
    """A call that can be done again. It keeps no array alive: each time it is given those of the call.

    `source`, `destination`, `result`: which argument is meant; None: none. `fresh`: the result is made each time.
    """

    def __init__(self, call: Call, values: tuple, work: CollectiveWR, wqe: Any) -> None:
        self.c = ffi.new("struct fanin_prepared *", {"wqe": wqe[0]})
        self.source, self.destination = _place(call.source, values), _place(call.destination, values)
        self.result = _place(call.result, values)
        self.fresh: Fresh | None = None
        if call.destination is not None and self.destination is None:
            offset = work.address_list[0].destination - address_of(call.destination)
            self.fresh = Fresh(call.destination.shape, call.destination.dtype, offset)
        if work.inline:
            self.c.inline_source = work.address_list[0].source
            self.c.inline_length = work.source_bytes()
        self._work = work
        self._call = dataclasses.replace(call, source=None, destination=None, result=None)

    def new_result(self) -> np.ndarray | None:
        """Room for the result, if it is a new array each time; from now on the device would write there."""
        if self.fresh is None:
            return None
        result = np.empty(self.fresh.shape, self.fresh.dtype)
        self.c.wqe.address.destination = address_of(result) + self.fresh.offset
        return result

    def result_of(self, values: tuple, new: np.ndarray | None) -> Any:
        """What the program gets."""
        return values[self.result] if self.result is not None else new

    def call_of(self, values: tuple, new: np.ndarray | None) -> Call:
        """The whole call, with its memory."""
        source = None if self.source is None else values[self.source]
        destination = new if self.destination is None else values[self.destination]
        return dataclasses.replace(
            self._call, source=source, destination=destination, result=self.result_of(values, new)
        )

    def request(self, stream: Any, values: tuple, new: np.ndarray | None) -> Request:
        """As a request of the usual kind."""
        return Request(stream, self.call_of(values, new), [self._work])


class Group(Protocol):
    """What calls need of a communicator."""

    def start(self, call: Call | Deferred) -> Request:
        """Start it on the communicator's stream."""


class Rank(Protocol):
    """What they need of the member behind it."""

    stream: Any

    def require_open(self) -> None:
        """InvalidRequest if the job has been left."""

    def compose(self, call: Call) -> list[CollectiveWR]:
        """The work requests of a call."""


class DirectCalls:
    """The blocking collectives of one rank, and those of them that can be done again at once."""

    def __init__(self, member: Rank, regions: RegionTable) -> None:
        self._member, self._regions = member, regions
        self._known: dict[Key, Prepared | None] = {}  # None: always goes the usual way
        self._version = regions.version

    def run(self, group: Group, arguments: Arguments, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """The result of the collective that `arguments` describes."""
        if self._version != self._regions.version:  # keys of memory have changed
            self._known.clear()
            self._version = self._regions.version
        key = key_of(arguments, args, kwargs)
        prepared = self._known.get(key) if key else None
        if prepared is None:
            return self._run_first(group, key, arguments, args, kwargs)
        self._member.require_open()
        values = (*args, *kwargs.values())
        new = prepared.new_result()
        outcome = self._member.stream.try_call(prepared, values, new)
        if outcome is True:
            return prepared.result_of(values, new)
        if outcome is False:
            return _finish(group, arguments(group, *args, **kwargs))
        return outcome.wait(_limit(prepared.call_of(values, new)))

    def _run_first(
        self, group: Group, key: Key | None, arguments: Arguments, args: tuple, kwargs: Mapping[str, Any]
    ) -> Any:
        call = arguments(group, *args, **kwargs)
        result = _finish(group, call)
        if key and key not in self._known:
            if len(self._known) >= RECENT:
                del self._known[next(iter(self._known))]
            self._known[key] = self._prepare(call, (*args, *kwargs.values()))
        return result

    def _prepare(self, call: Call | Deferred, values: tuple) -> Prepared | None:
        """The call, if it is one work request on memory that the arguments name, with nothing to do on the host."""
        if isinstance(call, Deferred) or call.conclude is not None:
            return None
        if call.source is not None and _place(call.source, values) is None:
            return None
        is_new = call.destination is call.result
        if call.destination is not None and _place(call.destination, values) is None and not is_new:
            return None
        works = self._member.compose(call)
        if len(works) != 1:
            return None
        return Prepared(call, values, works[0], self._member.stream.wqe_of(works[0]))


def key_of(arguments: Arguments, args: tuple, kwargs: Mapping[str, Any]) -> Key | None:
    """What makes two calls the same; None if that can not be said of these arguments."""
    key: list[Any] = [arguments, *kwargs]
    try:
        for value in (*args, *kwargs.values()):
            if type(value) is np.ndarray:
                address = int(cast(POINTER, from_buffer(value)))
                key += (address, value.shape, value.dtype, value.flags.writeable)
            elif type(value) in SIMPLE:
                key.append(value)
            else:
                return None
    except (TypeError, ValueError):  # not contiguous, or of a type that has no buffer
        return None
    return tuple(key)


def _place(memory: Any, values: Iterable[Any]) -> int | None:
    if memory is None:
        return None
    return next((place for place, value in enumerate(values) if value is memory), None)


def _finish(group: Group, call: Call | Deferred) -> Any:
    return group.start(call).wait(_limit(call))


def _limit(call: Call | Deferred) -> float | None:
    """Seconds until it has ended for certain; None: it may last."""
    return None if call.limit is None else call.limit + DEADLINE_GRACE
