"""Call: one collective with its arguments checked, and the work requests that come of it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fanin.buffers import address_of, require_apart
from fanin.collectives import Collective
from fanin.errors import InvalidRequest
from fanin.offload import Offload
from fanin.plan import Part, plan
from fanin.verbs import Address, CollectiveWR
from fanin.verbs.regions import RegionTable
from fanin_wire.abi import LKEY_PROCESS, MAX_INLINE, MID_BITS, DType, Op, WqeFlag

SIGNALED, FENCE = int(WqeFlag["SIGNALED"]), int(WqeFlag["FENCE"])
SIGNAL_INTERVAL = 64  # parts of a long call: a queue of silent requests would never be known to have room again
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
    brings and wants. result: what the program gets. conclude: last step on the host, when everything has come.
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
    conclude: Callable[[], None] | None = None

    @property
    def brings(self) -> bool:
        """Whether this rank brings data."""
        return self.source is not None

    @property
    def limit(self) -> float | None:
        """Seconds after which it has ended, by the devices' clocks; None: it may last."""
        return self.timeout

    @property
    def agreement(self) -> int:
        """16 bits of what all ranks must call alike and devices do not compare. In message numbers, they do."""
        memory = self.source if self.source is not None else self.destination
        kind = self.dtype if self.row.reduces or memory is None else memory.dtype.str
        return zlib.crc32(repr((self.name, self.root, self.sizes, kind)).encode()) & AGREEMENT_MASK

    def works(self, rank: int, regions: RegionTable) -> list[CollectiveWR]:
        """The work requests of this rank, in order; none if there are no bytes."""
        self._require_apart(rank)
        parts = plan(self.row, rank, self.root, self.sizes)
        source, destination = _place(self.source, regions), _place(self.destination, regions)
        agreement = self.agreement
        works = [self._work(part, source, destination, agreement) for part in parts]
        for work in works[SIGNAL_INTERVAL - 1 :: SIGNAL_INTERVAL] + works[-1:]:
            work.flags |= SIGNALED
        if self.fence and works:
            works[0].flags |= FENCE
        return works

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

    def _work(self, part: Part, source: tuple[int, int], destination: tuple[int, int], agreement: int) -> CollectiveWR:
        brought, wanted = part.source, part.destination
        address = Address(
            source[0] + brought.offset,
            destination[0] + wanted.offset,
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
            inline=0 < brought.nbytes <= MAX_INLINE,
            deadline_ms=_milliseconds(self.timeout),
            source_lkey=source[1],
            destination_lkey=destination[1],
            agreement=agreement,
        )

    def __str__(self) -> str:
        if self.row.reduces:
            return f"{self.name} ({Op(self.op).name}, {sum(self.sizes)} bytes of {DType(self.dtype).name})"
        return f"{self.name} ({sum(self.sizes)} bytes)"


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


def require_root(group: Group, root: int) -> None:
    """InvalidRequest if there is no such rank."""
    if not isinstance(root, (int, np.integer)) or not 0 <= root < group.size:
        raise InvalidRequest(f"root {root!r} is none of the ranks 0 to {group.size - 1}", remedy="Give one of them.")


def _place(memory: np.ndarray | None, regions: RegionTable) -> tuple[int, int]:
    """Address of a buffer and the key of the region that it lies in."""
    if memory is None:
        return 0, LKEY_PROCESS
    address = address_of(memory)
    return address, regions.lkey_of(address, memory.nbytes)


def _milliseconds(timeout: float | None) -> int:
    return 0 if timeout is None else min(max(1, math.ceil(timeout * 1000)), MAX_DEADLINE_MS)
