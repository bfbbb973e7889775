"""Call: one collective with its arguments checked, as the extension takes it."""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fanin.collectives.counts import Counts
from fanin.collectives.offload import Offload
from fanin.driver import ffi
from fanin.memory.buffers import bytes_of, require_apart
from fanin.timeouts import require_seconds
from fanin_wire.abi import DType, Op
from fanin_wire.collectives import Collective, Who
from fanin_wire.datatypes import UnsupportedDataType, datatype_of

_FLAGS = ffi.typeof("enum fanin_operation_flags").relements
FENCE, EXCHANGE_SIZES = _FLAGS["FANIN_FENCE"], _FLAGS["FANIN_EXCHANGE_SIZES"]
ANY_SIZE = (1 << 64) - 1
NO_OP, NO_DTYPE = int(Op.NONE), int(DType.NONE)
OTHER_DTYPE, ON_HOST = 1 << 16, 1 << 17  # bits of a tag
DEADLINE_GRACE = 2.0  # seconds that the device has to report a deadline that has passed
MAX_NAMED = 8  # sizes of a message for people
MAX_DEADLINE_MS = (1 << 32) - 1


class Group(Protocol):
    """The ranks that call, as one of them sees them."""

    rank: int
    size: int
    offload: Offload


@dataclass(slots=True)
class Call:
    """The data that a collective moves and computes, for one rank.

    row: of the table of collectives. kind: type of the elements; None: there are none. source, destination: contiguous
    memory of what the rank brings and wants. sizes: bytes of the message's blocks; of a call with `with_counts` those
    that this rank knows. result: what the program gets. conclude: last step on the host; from the complete Request to
    the result. with_counts: from counts of elements to the call; None: the sizes are known. on_host: name of the
    reduction that the host computes of the data. part_of: name of what the program called, if it is not this
    collective.
    """

    row: Collective
    kind: np.dtype | None = None
    source: np.ndarray | None = None
    destination: np.ndarray | None = None
    sizes: tuple[int, ...] = ()
    result: Any = None
    root: int = 0
    op: int = NO_OP
    dtype: int = NO_DTYPE
    timeout: float | None = None
    fence: bool = False
    conclude: Callable[[Any], Any] | None = None
    with_counts: Callable[[Counts], Call] | None = None
    on_host: str = ""
    part_of: str = ""

    def __post_init__(self) -> None:
        require_seconds(self.timeout)
        self.root = int(self.root)  # True and numpy's numbers are ranks, too, but have other names

    @property
    def name(self) -> str:
        """The name that the program called."""
        return self.part_of or self.on_host or self.row.name

    @property
    def limit(self) -> float:
        """Seconds until it has certainly ended; -1: no limit."""
        if self.timeout is None:
            return -1.0
        return DEADLINE_GRACE + self.timeout * (1 if self.with_counts is None else 2)

    def arguments(self, rank: int) -> tuple[Any, ...]:
        """The extension's arguments, in its order."""
        self._require_apart(rank)
        return (
            self,
            self.name,
            self.result,
            self.conclude,
            self.row.code,
            self.root,
            self.op,
            self.dtype,
            (FENCE if self.fence else 0) | (0 if self.with_counts is None else EXCHANGE_SIZES),
            self._tag(),
            _milliseconds(self.timeout),
            *self._blocks(),
            bytes_of(self.source),
            bytes_of(self.destination),
        )

    def _blocks(self) -> tuple[int, array[int] | None]:
        """Bytes of each block if all are equal, else 0; and the sizes of all."""
        if self.with_counts is not None:
            knows_all = self.row.brings.who is Who.ROOT and self.source is not None
            return (ANY_SIZE, array("Q", self.sizes)) if knows_all else (self.sizes[0], None)
        if len(set(self.sizes)) <= 1 and not self.row.is_vector:
            return (self.sizes[0] if self.sizes else 0), None
        return 0, array("Q", self.sizes)

    def _tag(self) -> int:
        """Names the type of the elements that are moved; equal on all ranks."""
        if self.row.reduces or self.kind is None:
            return 0
        if self.on_host:
            return ON_HOST | zlib.crc32(f"{self.name} {self.kind.str}".encode()) & 0xFFFF
        try:
            return int(datatype_of(self.kind).code)
        except UnsupportedDataType:
            return OTHER_DTYPE | zlib.crc32(self.kind.str.encode()) & 0xFFFF

    def _require_apart(self, rank: int) -> None:
        if self.source is None or self.destination is None:
            return
        own = sum(self.sizes[:rank])
        require_apart(
            self.source, own if self.row.brings.own else 0, self.destination, own if self.row.wants.own else 0
        )

    def __str__(self) -> str:
        """All that must be equal on all ranks, so that a comparison of their errors shows what differs."""
        if self.part_of:
            return self.part_of
        if self.with_counts is not None:
            return f"{self.name} (parts of {self.kind})"
        kind = DType(self.dtype).name.lower() if self.row.reduces else str(self.kind)
        return description(self.row, self.name, self.sizes, kind, self.op, self.root)


def description(row: Collective, name: str, sizes: tuple[int, ...], kind: str, op: int, root: int) -> str:
    """A collective for people, with all that must be equal on all ranks. kind: the type of its elements."""
    details = [Op(op).name] if row.reduces else []
    details += [f"{sum(sizes)} bytes of {kind}"] if sizes else []
    details += [f"root {root}"] if row.has_root else []
    details += [f"parts of {_listed(sizes)} bytes"] if len(set(sizes)) > 1 else []
    return f"{name} ({', '.join(details)})" if details else name


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes[:MAX_NAMED])) + (", ..." if len(sizes) > MAX_NAMED else "")


def _milliseconds(timeout: float | None) -> int:
    return 0 if timeout is None else min(max(1, math.ceil(timeout * 1000)), MAX_DEADLINE_MS)
