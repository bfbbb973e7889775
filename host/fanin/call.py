"""Call: one collective with its arguments checked, and the work requests that come of it."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fanin.buffers import address_of, require_apart
from fanin.collectives import Collective
from fanin.errors import InvalidRequest
from fanin.offload import Offload
from fanin.plan import Part, part_length, plan
from fanin.relay import stand_in
from fanin.seconds import require_seconds
from fanin.staging import Place, Staging, StandIn
from fanin.verbs import Address, CollectiveWR
from fanin.verbs.regions import RegionTable
from fanin_wire.abi import LKEY_PROCESS, LONG_BYTES, MAX_INLINE, MID_BITS, DType, Op, WqeFlag

SIGNALED, FENCE, LONG = (int(WqeFlag[name]) for name in ("SIGNALED", "FENCE", "LONG"))
SIGNAL_INTERVAL = 64  # parts of a long call: a queue of silent requests would never be known to have room again
MAX_NAMED = 8  # sizes of a message for people
MAX_DEADLINE_MS = (1 << 32) - 1
AGREEMENT_MASK = (1 << MID_BITS) - 1


class Group(Protocol):
    """The ranks that call, as one of them sees them."""

    rank: int
    size: int
    offload: Offload


@dataclass(slots=True)
class Call:
    """What a collective moves and computes, for one rank; made once, and started any number of times.

    sizes: bytes of the message's blocks, equal on every rank. source, destination: contiguous memory of what the rank
    brings and wants. result: what the program gets. staged: registered memory that stands in for source or destination.
    conclude: last step on the host, when everything has come. on_host: the host computes what the devices do not.
    waits: whoever calls waits until it has ended. began: when it was posted, by time.monotonic().
    """

    name: str
    row: Collective
    sizes: tuple[int, ...]
    source: np.ndarray | None = None
    destination: np.ndarray | None = None
    result: Any = None
    root: int = 0
    op: int = int(Op["NONE"])
    dtype: int = int(DType["U8"])
    timeout: float | None = None
    fence: bool = False
    staged: StandIn | None = None
    conclude: Callable[[], None] | None = None
    on_host: bool = False
    waits: bool = False
    began: float = 0.0

    def __post_init__(self) -> None:
        require_seconds(self.timeout)
        self.root = int(self.root)  # True and numpy's numbers are ranks, too, but have other names

    @property
    def brings(self) -> bool:
        """Whether this rank brings data."""
        return self.source is not None

    @property
    def limit(self) -> float | None:
        """Seconds after which it has ended, by the devices' clocks; None: it may last."""
        return self.timeout

    @property
    def part_length(self) -> int | None:
        """Bytes of the messages that it is cut into; None if it is not: not longer, or not one block."""
        length = part_length(sum(self.sizes))
        return None if self.row.divided or sum(self.sizes) <= length else length

    @property
    def agreement(self) -> int:
        """16 bits of what all ranks must call alike and devices do not compare. In message numbers, they do."""
        memory = self.source if self.source is not None else self.destination
        kind = self.dtype if self.row.reduces or memory is None else memory.dtype.str
        return zlib.crc32(repr((self.name, self.root, self.sizes, kind)).encode()) & AGREEMENT_MASK

    def stage(self, staging: Staging) -> None:
        """Let registered memory stand in for ordinary memory. Not of what begins behind a fence: it is read later."""
        if self.staged is None and not self.fence:
            part = self.part_length if self.waits else None
            self.staged = stand_in(staging, *self.ordinary_bytes(staging), part)

    def ordinary_bytes(self, staging: Staging) -> tuple[int, int]:
        """Bytes in ordinary memory that it brings, but for few, which go into the request; and that it wants."""
        source = 0 if self.source is None or self.source.nbytes <= MAX_INLINE else staging.ordinary_bytes(self.source)
        return source, 0 if self.destination is None else staging.ordinary_bytes(self.destination)

    def has_room(self, number: int) -> bool:
        """Whether its work request `number` may be posted now."""
        return self.staged is None or self.staged.has_room(number)

    def bring(self, number: int) -> None:
        """It is about to be."""
        if number == 0:
            self.began = time.monotonic()
        if self.staged is not None:
            self.staged.bring(number, self.source)

    def milliseconds_left(self) -> int:
        """Of its timeout, for a work request that is posted late."""
        passed = time.monotonic() - self.began
        return _milliseconds(None if self.timeout is None else max(0.0, self.timeout - passed))

    def resume(self, ended: int) -> None:
        """So many of its work requests have ended; their results have been seen to, or there are none."""
        if self.staged is not None:
            self.staged.resume(ended)

    def end_part(self, number: int) -> None:
        """Its work request `number`, and those before it, are complete."""
        if self.staged is not None:
            self.staged.end_part(number, self.destination)

    def end(self, error: BaseException | None) -> None:
        """The request has ended."""
        if self.staged is not None:
            if error is None:
                self.staged.end(self.destination)
            else:
                self.staged.spoiled = True
        if error is None and self.conclude is not None:
            self.conclude()

    def works(self, rank: int, regions: RegionTable) -> list[CollectiveWR]:
        """The work requests of this rank, in order; none if there are no bytes."""
        self._require_apart(rank)
        parts = plan(self.row, rank, self.root, self.sizes)
        own, stand_ins = self.own_places(regions), self.stand_ins()
        source, destination = stand_ins[0] or own[0], stand_ins[1] or own[1]
        agreement = self.agreement
        works = [self._work(part, source, destination, agreement) for part in parts]
        self._flag(works, destination)
        return works

    def own_places(self, regions: RegionTable) -> tuple[Place, Place]:
        """Where source and destination are by themselves."""
        return _place(self.source, regions), _place(self.destination, regions)

    def stand_ins(self) -> tuple[Place | None, Place | None]:
        """What stands in for them."""
        return (None, None) if self.staged is None else self.staged.places()

    def _flag(self, works: list[CollectiveWR], destination: Place) -> None:
        """Which of them have a completion, wait for others, or are part of a long result."""
        interval = (self.staged and self.staged.signal_interval) or SIGNAL_INTERVAL
        for work in works[interval - 1 :: interval] + works[-1:]:
            work.flags |= SIGNALED
        if self.fence and works:
            works[0].flags |= FENCE
        if sum(self.sizes) >= LONG_BYTES and not destination.is_ordinary and not destination.stands_in:
            for work in works:
                work.flags |= LONG

    def _require_apart(self, rank: int) -> None:
        if self.source is None or self.destination is None:
            return
        own = sum(self.sizes[:rank])
        require_apart(
            self.source,
            own if self.row.brings.own else 0,
            self.destination,
            own if self.row.wants.own else 0,
        )

    def _work(self, part: Part, source: Place, destination: Place, agreement: int) -> CollectiveWR:
        brought, wanted = part.source, part.destination
        address = Address(
            source.at(brought.offset),
            destination.at(wanted.offset),
            brought.first,
            brought.blocks,
            wanted.first,
            wanted.blocks,
        )
        return CollectiveWR(
            self.op,
            self.dtype,
            part.length,
            [address],
            block=part.block,
            contributors=self.row.contributors,
            flags=0,
            inline=0 < brought.nbytes <= MAX_INLINE and not self.fence,  # behind a fence it is read later
            deadline_ms=_milliseconds(self.timeout),
            source_lkey=source.lkey,
            destination_lkey=destination.lkey,
            agreement=agreement,
        )

    def __str__(self) -> str:
        """All that must be alike on all ranks, so that who compares their errors sees what differs."""
        memory = self.source if self.source is not None else self.destination
        kind = DType(self.dtype).name.lower() if self.row.reduces or memory is None else str(memory.dtype)
        details = [Op(self.op).name] if self.row.reduces else []
        details += [f"{sum(self.sizes)} bytes of {kind}"] if self.sizes else []
        details += [f"root {self.root}"] if self.row.has_root else []
        details += [f"parts of {_listed(self.sizes)} bytes"] if len(set(self.sizes)) > 1 else []
        return f"{self.name} ({', '.join(details)})" if details else self.name


@dataclass(slots=True)
class Deferred:
    """A collective whose sizes not all ranks know: `first` brings them, and then `then()` makes the call."""

    name: str
    first: Call
    then: Callable[[], Call]

    @property
    def brings(self) -> bool:
        """As of a call: whoever knows counts that others need has the data."""
        return self.first.brings

    @property
    def limit(self) -> float | None:
        """As of a call: all ranks have the timeout to take part in each of the two."""
        return None if self.first.timeout is None else 2 * self.first.timeout


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes[:MAX_NAMED])) + (", ..." if len(sizes) > MAX_NAMED else "")


def require_root(group: Group, root: int) -> None:
    """InvalidRequest if there is no such rank."""
    if not isinstance(root, (int, np.integer)) or not 0 <= root < group.size:
        raise InvalidRequest(f"root {root!r} is none of the ranks 0 to {group.size - 1}", remedy="Give one of them.")


def _place(memory: np.ndarray | None, regions: RegionTable) -> Place:
    """Where a buffer lies."""
    if memory is None:
        return Place(0, LKEY_PROCESS)
    address = address_of(memory)
    return Place(address, regions.lkey_of(address, memory.nbytes))


def _milliseconds(timeout: float | None) -> int:
    return 0 if timeout is None else min(max(1, math.ceil(timeout * 1000)), MAX_DEADLINE_MS)
