"""Direct: a blocking collective that was done before is done again by one call of the driver core.

Most of what a short collective costs on the host is the making of its request: checks of the arguments, plan, work
request, bookkeeping. So what came of them is kept, to be found by the arguments: an array counts as the same if it is
the same memory, with the same shape and type. Where anything else is under way, all goes its usual way.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from fanin.attachment import Attachment
from fanin.buffers import address_of
from fanin.call import Call, Deferred
from fanin.driver import ffi
from fanin.request import Request
from fanin.staging import Staged, Staging
from fanin.verbs import CollectiveWR
from fanin.verbs.regions import RegionTable

DEADLINE_GRACE = 2.0  # seconds that the device has to report a deadline that has passed
RECENT = 256  # calls that are kept
SIMPLE = frozenset({str, int, float, bool, type(None)})
POINTER = ffi.typeof("uintptr_t")
PROGRESS = ffi.typeof("enum fanin_progress").relements
PREPARED, COMPLETE = PROGRESS["FANIN_PREPARED"], PROGRESS["FANIN_COMPLETE"]
from_buffer, cast = ffi.from_buffer, ffi.cast

Key = tuple[Any, ...]
Arguments = Callable[..., Call | Deferred]


class Prepared:
    """A call that can be done again. It keeps no array alive: each time it is given those of the call.

    `source`, `destination`, `result`: which argument is meant; None: none. `fresh`: shape and type of a result that is
    a new array each time.
    """

    def __init__(self, call: Call, values: tuple, work: CollectiveWR, wqe: Any) -> None:
        self.c = ffi.new("struct fanin_prepared *", {"wqe": wqe[0]})
        self.source, self.destination = _argument(call.source, values), _argument(call.destination, values)
        self.result = _argument(call.result, values)
        self.fresh: tuple[tuple[int, ...], np.dtype] | None = None
        if call.destination is not None and self.destination is None:
            self.fresh = call.destination.shape, call.destination.dtype
        self._work = work
        self._call = dataclasses.replace(call, source=None, destination=None, result=None, staged=None)
        self._describe_copies(call, work)

    def _describe_copies(self, call: Call, work: CollectiveWR) -> None:
        """What fanin_call copies before and after. What is staged, is so each time, in areas of the same size."""
        staged, address = call.staged, work.address_list[0]
        self._staged_source = staged is not None and staged.source is not None
        self._staged_destination = staged is not None and staged.destination is not None
        if work.inline:
            self.c.source, self.c.source_length = address.source, work.source_bytes()
        elif self._staged_source and call.source is not None:
            self.c.source, self.c.source_length = address_of(call.source), call.source.nbytes
        if self._staged_destination and call.destination is not None:
            self.c.destination, self.c.destination_length = address_of(call.destination), call.destination.nbytes

    def begin(self, values: tuple, staging: Staging) -> Attempt | None:
        """What this time takes; None if the device grants no more memory."""
        staged: Staged | None = None
        if self._staged_source or self._staged_destination:
            source = staging.lend(self.c.source_length) if self._staged_source else None
            destination = staging.lend(self.c.destination_length) if self._staged_destination else None
            staged = Staged(staging, source, destination)
            if (self._staged_source and source is None) or (self._staged_destination and destination is None):
                return None
        return Attempt(self, values, None if self.fresh is None else np.empty(*self.fresh), staged)

    def aim(self, attempt: Attempt) -> None:
        """Put the memory of one attempt into the request. Only one thread may be between this and the post."""
        request, place = self.c, self.c.wqe.address
        request.progress = PREPARED
        if attempt.staged is not None and attempt.staged.source is not None:
            request.staged_source = place.source = attempt.staged.source.address
            request.wqe.source_lkey = attempt.staged.source.lkey
        if attempt.staged is not None and attempt.staged.destination is not None:
            request.staged_destination = place.destination = attempt.staged.destination.address
            request.wqe.destination_lkey = attempt.staged.destination.lkey
            if attempt.new is not None:
                request.destination = address_of(attempt.new)
        elif attempt.new is not None:
            place.destination = address_of(attempt.new)

    def call_of(self, attempt: Attempt) -> Call:
        """The whole call, with its memory."""
        values = attempt.values
        return dataclasses.replace(
            self._call,
            source=None if self.source is None else values[self.source],
            destination=attempt.new if self.destination is None else values[self.destination],
            result=attempt.result,
            staged=attempt.staged,
        )

    def request(self, stream: Any, attempt: Attempt) -> Request:
        """As a request of the usual kind."""
        return Request(stream, self.call_of(attempt), [self._work])


class Attempt:
    """One time that a prepared call is done: its arguments, and what is made for it."""

    __slots__ = ("new", "prepared", "staged", "values")

    def __init__(self, prepared: Prepared, values: tuple, new: np.ndarray | None, staged: Staged | None) -> None:
        self.prepared, self.values, self.new, self.staged = prepared, values, new, staged

    @property
    def is_posted(self) -> bool:
        """Whether the device has it."""
        return bool(self.prepared.c.progress != PREPARED)

    @property
    def is_complete(self) -> bool:
        """Whether its completion has been taken."""
        return bool(self.prepared.c.progress == COMPLETE)

    @property
    def result(self) -> Any:
        """What the program gets."""
        place = self.prepared.result
        return self.new if place is None else self.values[place]


class Starter(Protocol):
    """What calls need of a communicator."""

    def start(self, call: Call | Deferred) -> Request:
        """Start it on the communicator's stream."""


class Rank(Protocol):
    """What they need of the member behind it."""

    stream: Any
    attachment: Attachment

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
        self._lock = threading.Lock()

    def run(self, group: Starter, arguments: Arguments, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """The result of the collective that `arguments` describes."""
        if self._version != self._regions.version:  # keys of memory have changed
            with self._lock:
                self._known.clear()
                self._version = self._regions.version
        key = key_of(arguments, args, kwargs)
        prepared = self._known.get(key) if key else None
        if prepared is None:
            return self._run_first(group, key, arguments, args, kwargs)
        self._member.require_open()
        attempt = prepared.begin((*args, *kwargs.values()), self._member.attachment.staging)
        outcome = self._member.stream.try_call(attempt) if attempt else False
        if attempt is None or outcome is False:
            return _finish(group, arguments(group, *args, **kwargs))
        return attempt.result if outcome is True else outcome.wait(_limit(prepared.call_of(attempt)))

    def _run_first(
        self, group: Starter, key: Key | None, arguments: Arguments, args: tuple, kwargs: Mapping[str, Any]
    ) -> Any:
        call = arguments(group, *args, **kwargs)
        result = _finish(group, call)
        if key and key not in self._known:
            prepared = self._prepare(call, (*args, *kwargs.values()))
            with self._lock:
                if len(self._known) >= RECENT:
                    del self._known[next(iter(self._known))]
                self._known[key] = prepared
        return result

    def _prepare(self, call: Call | Deferred, values: tuple) -> Prepared | None:
        """The call, if it is one work request on memory that the arguments name, with nothing to do on the host.

        An array that is none of that memory was read to make the call (counts, say), and may hold other numbers soon.
        """
        if isinstance(call, Deferred) or call.on_host:
            return None
        used = (call.source, call.destination, call.result)
        if any(type(value) is np.ndarray and not any(value is memory for memory in used) for value in values):
            return None
        if call.source is not None and _argument(call.source, values) is None:
            return None
        is_new = call.destination is call.result
        if call.destination is not None and _argument(call.destination, values) is None and not is_new:
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


def _argument(memory: Any, values: Iterable[Any]) -> int | None:
    """Number of the argument that some memory is; None if it is none of them."""
    if memory is None:
        return None
    return next((place for place, value in enumerate(values) if value is memory), None)


def _finish(group: Starter, call: Call | Deferred) -> Any:
    return group.start(call).wait(_limit(call))


def _limit(call: Call | Deferred) -> float | None:
    """Seconds until it has ended for certain; None: it may last."""
    return None if call.limit is None else call.limit + DEADLINE_GRACE
