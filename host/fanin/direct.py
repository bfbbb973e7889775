"""Direct: a collective that was called before is posted as it was; a blocking one is one call of the driver core.

Most of what a short collective costs on the host is the making of its request: checks of the arguments, plan, work
request, bookkeeping. So what came of them is kept, to be found by the arguments. Where anything else is under way, all
goes its usual way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from fanin.attachment import Attachment
from fanin.call import Call, Deferred
from fanin.driver import library
from fanin.prepared import Attempt, Remembered, argument, is_one_message
from fanin.request import Request
from fanin.sameness import Key, Sight, key_of, lasting
from fanin.verbs import CollectiveWR
from fanin.verbs.regions import RegionTable

DEADLINE_GRACE = 2.0  # seconds that the device has to report a deadline that has passed
# Calls that are kept, of some 4000 bytes each besides what stands in for their memory. A loop over more than that, each
# on other memory, finds none again: it pays for keeping what it never uses, a tenth of what an unknown call costs.
RECENT = 256

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
    """The collectives of one rank, and those of them that can be done again at once: about RECENT that are in use.

    Programs make their calls in turn. So the one that followed the last one is looked at before it is searched for.
    """

    __slots__ = "_is_same", "_known", "_lock", "_member", "_regions", "_version", "last"

    def __init__(self, member: Rank, regions: RegionTable) -> None:
        self._member, self._regions = member, regions
        self._known: dict[Key, Remembered | None] = {}  # None: always goes the usual way; what came first is first
        self.last: Remembered | None = None  # the driver core looks, too (again.c)
        self._version = regions.version
        self._lock = threading.Lock()
        self._is_same = library().fanin_same_arguments

    def go_on(self, remembered: Remembered, attempt: Attempt) -> Any:
        """The result of what the driver core alone has not ended, or has failed to do."""
        outcome = self._member.stream.finish(attempt, _limit(remembered))
        return self._end(remembered, attempt, outcome)

    def run(self, group: Starter, arguments: Arguments, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """The result of the collective that `arguments` describes."""
        values = (*args, arguments, *kwargs, *kwargs.values())
        remembered = self._recall(arguments, values)
        if remembered is None:
            call, request = self._start(group, arguments, args, kwargs, values, waits=True)
            return request.wait(_limit(call))
        attempt = remembered.begin(values, waits=True)
        stream = self._member.stream
        with stream.lock:
            outcome = stream.fast.call(attempt)
        if outcome is None:
            outcome = stream.finish(attempt, _limit(remembered))
        return self._end(remembered, attempt, outcome)

    def _end(self, remembered: Remembered, attempt: Attempt, outcome: Request | bool) -> Any:
        """The result. outcome: as of `Stream.finish`."""
        if outcome is True:
            return remembered.end(attempt)
        request = outcome or self._submit(attempt)
        return request.wait(_limit(remembered))

    def start(self, group: Starter, arguments: Arguments, args: tuple, kwargs: Mapping[str, Any]) -> Request:
        """Start it, and return at once."""
        values = (*args, arguments, *kwargs, *kwargs.values())
        remembered = self._recall(arguments, values)
        if remembered is None:
            return self._start(group, arguments, args, kwargs, values)[1]
        return self._submit(remembered.begin(values, waits=False))

    def _recall(self, arguments: Arguments, values: tuple) -> Remembered | None:
        """The same call, if it can be done once more. What has not been followed by another may come again."""
        last = self.last
        found = None if last is None else last.follower or last
        if found is None or found.version != self._regions.version or not self._is_same(found.sight.c, id(values)):
            found = self._find(key_of(arguments, values))
        if found is not None:
            found.c.is_used = 1
            self.last = found
        return found

    def _find(self, key: Key | None) -> Remembered | None:
        """The call with this key, which has just followed the last one."""
        if self._version != self._regions.version:
            self.forget()
        last, found = self.last, self._known.get(key) if key else None
        if found is not None and last is not None:
            last.follower = None if found is last else found
        return found

    def forget(self) -> None:
        """Keys of memory have changed, or nothing will be done again."""
        with self._lock:
            for remembered in filter(None, self._known.values()):
                remembered.follower = None  # no ring of them keeps them alive
            self._known.clear()
            self.last, self._version = None, self._regions.version

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
        arguments: Arguments,
        args: tuple,
        kwargs: Mapping[str, Any],
        values: tuple,
        waits: bool = False,
    ) -> tuple[Call | Deferred, Request]:
        """For the first time. waits: its caller does nothing else before it has ended."""
        key, version = key_of(arguments, values), self._regions.version
        sight = Sight(values) if key else None  # now, for another thread may change an array while the call is made
        call = arguments(group, *args, **kwargs)
        if isinstance(call, Call):
            call.waits = waits
        request = group.start(call)
        if key and sight and key not in self._known:
            self._keep(key, self._remember(call, request.works, values, sight, version), version)
        return call, request

    def _keep(self, key: Key, remembered: Remembered | None, version: int) -> None:
        """Unless another thread has done so meanwhile, or memory has gone or come that may have this key."""
        with self._lock:
            if version == self._regions.version and key not in self._known:
                self._make_room()
                self._known[lasting(key)] = remembered
                self.last = remembered or self.last

    def _make_room(self) -> None:
        """For one more: of those that came first one that was not used since it was passed over."""
        while len(self._known) >= RECENT:
            key = next(iter(self._known))
            remembered = self._known.pop(key)
            if remembered is not None and remembered.c.is_used:
                remembered.c.is_used = 0
                self._known[key] = remembered
            elif remembered is not None:
                remembered.follower = None

    def _remember(
        self, call: Call | Deferred, works: list[CollectiveWR], values: tuple, sight: Sight, version: int
    ) -> Remembered | None:
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
        return Remembered(call, values, sight, works, self._member.stream, staging, own, self._regions, version)


def _limit(call: Call | Deferred | Remembered) -> float | None:
    """Seconds until it has ended for certain; None: it may last."""
    return None if call.limit is None else call.limit + DEADLINE_GRACE
