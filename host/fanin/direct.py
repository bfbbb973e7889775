"""Direct: a collective that was called before is posted as it was; a blocking one is one call of the driver core.

Most of what a short collective costs on the host is the making of its request: checks of the arguments, plan, work
request, bookkeeping. So what came of them is kept, to be found by the arguments: an array counts as the same if it is
the same memory, with the same shape and type. Where anything else is under way, all goes its usual way.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from fanin.attachment import Attachment
from fanin.call import Call, Deferred
from fanin.driver import ffi
from fanin.prepared import Attempt, Remembered, argument, is_one_message
from fanin.request import Request
from fanin.verbs import CollectiveWR
from fanin.verbs.regions import RegionTable

DEADLINE_GRACE = 2.0  # seconds that the device has to report a deadline that has passed
# Calls that are kept, of some 600 bytes each. A loop over more than that, each on other memory, finds none again: it
# pays for keeping what it never uses, a tenth of what an unknown call costs.
RECENT = 256
SIMPLE = frozenset({str, int, float, bool, type(None)})
POINTER = ffi.typeof("void *")
from_buffer, cast, CData = ffi.from_buffer, ffi.cast, ffi.CData

Key = tuple[Any, ...]
Arguments = Callable[..., Call | Deferred]


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


class DirectCalls:
    """The collectives of one rank, and those of them that can be done again at once: the RECENT ones used last."""

    def __init__(self, member: Rank, regions: RegionTable) -> None:
        self._member, self._regions = member, regions
        self._known: OrderedDict[Key, Remembered | None] = OrderedDict()  # None: always goes the usual way
        self._version = regions.version
        self._lock = threading.Lock()

    def run(self, group: Starter, arguments: Arguments, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """The result of the collective that `arguments` describes."""
        values = (*args, *kwargs.values())
        key = key_of(arguments, kwargs, values)
        attempt = self._recall(key, values, waits=True)
        if attempt is None:
            call, request = self._start(group, key, arguments, args, kwargs, waits=True)
            return request.wait(_limit(call))
        stream = self._member.stream
        with stream.lock:
            outcome = stream.fast.call(attempt)
        if outcome is True:
            attempt.remembered.keep(attempt)
            return attempt.result
        request = outcome or self._submit(attempt)
        return request.wait(_limit(attempt.remembered))

    def start(self, group: Starter, arguments: Arguments, args: tuple, kwargs: Mapping[str, Any]) -> Request:
        """Start it, and return at once."""
        values = (*args, *kwargs.values())
        key = key_of(arguments, kwargs, values)
        attempt = self._recall(key, values)
        return self._submit(attempt) if attempt else self._start(group, key, arguments, args, kwargs)[1]

    def _recall(self, key: Key | None, values: tuple, waits: bool = False) -> Attempt | None:
        """A call with this key, to be done once more; None if there is none."""
        if self._version != self._regions.version:
            self.forget()
        remembered = self._known.get(key) if key else None
        if key is None or remembered is None:
            return None
        try:
            self._known.move_to_end(key)
        except KeyError:  # another thread has just put others in its place
            return None
        return remembered.begin(values, self._member.attachment.staging, waits)

    def forget(self) -> None:
        """Keys of memory have changed, or nothing will be done again."""
        with self._lock:
            self._known.clear()
            self._version = self._regions.version

    def _submit(self, attempt: Attempt) -> Request:
        """Once more, the usual way but for what is known of it."""
        self._member.require_open()
        request = attempt.request(self._member.stream)
        request.prepared = attempt
        self._member.stream.submit(request)
        return request

    def _start(
        self,
        group: Starter,
        key: Key | None,
        arguments: Arguments,
        args: tuple,
        kwargs: Mapping[str, Any],
        waits: bool = False,
    ) -> tuple[Call | Deferred, Request]:
        """For the first time. waits: its caller does nothing else before it has ended."""
        call = arguments(group, *args, **kwargs)
        if isinstance(call, Call):
            call.waits = waits
        request = group.start(call)
        if key and key not in self._known:
            remembered = self._remember(call, request.works, (*args, *kwargs.values()))
            with self._lock:
                if len(self._known) >= RECENT:
                    self._known.popitem(last=False)
                self._known[_lasting(key)] = remembered
        return call, request

    def _remember(self, call: Call | Deferred, works: list[CollectiveWR], values: tuple) -> Remembered | None:
        """The call, if it is one message on memory that the arguments name, with nothing to do on the host.

        An array that is none of that memory was read to make the call (counts, say), and may hold other numbers soon.
        """
        if isinstance(call, Deferred) or call.on_host or not is_one_message(call, works):
            return None
        used = (call.source, call.destination, call.result)
        if any(type(value) is np.ndarray and not any(value is memory for memory in used) for value in values):
            return None
        if call.source is not None and argument(call.source, values) is None:
            return None
        is_new = call.destination is call.result
        if call.destination is not None and argument(call.destination, values) is None and not is_new:
            return None
        staging, own = self._member.attachment.staging, call.own_places(self._regions)
        return Remembered(call, values, works, self._member.stream, staging, own)


def key_of(arguments: Arguments, names: Iterable[str], values: tuple) -> Key | None:
    """What makes two calls the same; None if that can not be said of these arguments. names: of the last of `values`.

    The place of an array is in it as the buffer itself, which compares and hashes by its address.
    """
    key: list[Any] = [arguments, *names]
    try:
        for value in values:
            kind = type(value)
            if kind is np.ndarray:
                key += (from_buffer(value), value.shape, value.dtype, value.flags.writeable)
            elif kind in SIMPLE:
                key.append(value)
            else:
                return None
    except (TypeError, ValueError):  # not contiguous, or of a type that has no buffer
        return None
    return tuple(key)


def _lasting(key: Key) -> Key:
    """An equal key that keeps no array alive."""
    return tuple(cast(POINTER, part) if isinstance(part, CData) else part for part in key)


def _limit(call: Call | Deferred | Remembered) -> float | None:
    """Seconds until it has ended for certain; None: it may last."""
    return None if call.limit is None else call.limit + DEADLINE_GRACE
