"""The order in which a job folds the data of its ranks: the promise of the reproducible modes, as numpy code.

Floating-point results depend on the order of additions and on where values are rounded. Without a reproducible mode a
device adds in the order of arrival. With one (`run` or `shape`) the job's path alone gives the order, and `reduce`
gives the bits of the devices:

- a device (NIC or switch) folds its children from the lowest bit to the highest; it computes f16 and bf16 in f32 and
  rounds once, at its output;
- in a ring the starting node folds its ranks; each next one folds its own ranks, then adds the received partial;
- the completing device divides for MEAN, and only then rounds;
- in a job with wide partials only the result is rounded.

A ring of mode `run` starts segment k at node (k + 1) mod n; a ring of mode `shape`, or below a switch, starts all at
node 0. So `shape` gives the bits of one switch above the same nodes: both add the nodes' partials (f32 for f16 and
bf16) from the first node to the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from fanin_wire.datatypes import DataType, datatype_by_name, datatype_of
from fanin_wire.operations import Operation

F32 = datatype_by_name("f32")


class Device(NamedTuple):
    """A NIC or a switch; its children in the order of their bits, where a number is a rank."""

    children: tuple[Path, ...]


class Ring(NamedTuple):
    """NICs in a ring. `rotates`: segment k starts at node (k + 1) mod n; else all start at node 0."""

    nodes: tuple[Device, ...]
    rotates: bool = True


Path: TypeAlias = int | Device | Ring


def reduce(
    path: Path,
    contributions: np.ndarray,
    operation: Operation,
    datatype: DataType | None = None,
    *,
    wide: bool = False,
    sid: int = 0,
) -> np.ndarray:
    """The result of segment `sid` over `contributions`, of shape (ranks, elements), in their dtype.

    `wide`: partials of f16 and bf16 travel as f32. `datatype`: needed for bf16, whose dtype is uint16.
    """
    datatype = datatype or datatype_of(contributions.dtype)
    widens = operation.widens(datatype)
    fold = _Fold(contributions, operation, datatype, wide and widens, sid)
    values = fold.values(path)
    computed = operation.partial(values, fold.type, wide=widens and not fold.wide and len(values) > 1)
    return operation.finish(computed, ranks_of(path), datatype).view(contributions.dtype)


def reduce_message(
    path: Path,
    contributions: np.ndarray,
    operation: Operation,
    segments: Iterable[tuple[int, int]],
    datatype: DataType | None = None,
    *,
    wide: bool = False,
) -> np.ndarray:
    """The result of a message cut into `segments`: (first, end) in elements, segment 0 first."""
    if not (isinstance(path, Ring) and path.rotates):  # the order is the same for all segments
        segments = [(0, contributions.shape[1])]
    result = np.zeros_like(contributions[0])
    octets, size = result.view(np.uint8), contributions.dtype.itemsize  # numpy leaves the padding of pairs open
    for sid, (first, end) in enumerate(segments):
        segment = reduce(path, contributions[:, first:end], operation, datatype, wide=wide, sid=sid)
        octets[first * size : end * size] = segment.view(np.uint8)
    return result


def ranks_of(path: Path) -> int:
    """Number of ranks below a device."""
    if isinstance(path, int):
        return 1
    return sum(ranks_of(below) for below in (path.nodes if isinstance(path, Ring) else path.children))


class _Fold(NamedTuple):
    """One segment on its way up. `wide`: f32 instead of `datatype` travels between devices."""

    contributions: np.ndarray
    operation: Operation
    datatype: DataType
    wide: bool
    sid: int

    @property
    def type(self) -> DataType:
        """The type that travels between devices."""
        return F32 if self.wide else self.datatype

    def output(self, path: Path) -> np.ndarray:
        """What a rank or a device sends up."""
        if isinstance(path, int):
            own = self.contributions[path : path + 1]
            return self.operation.partial(own, self.datatype, wide=True) if self.wide else own[0]
        return self.operation.partial(self.values(path), self.type)

    def values(self, path: Path) -> np.ndarray:
        """What the last device of a path folds, in order: shape (values, elements)."""
        if isinstance(path, int):
            return self.output(path)[None]
        if isinstance(path, Device):
            return np.array([self.output(below) for below in path.children])
        return self._ring_values(path)

    def _ring_values(self, ring: Ring) -> np.ndarray:
        count = len(ring.nodes)
        start = (self.sid + 1) % count if ring.rotates else 0
        values = self.values(ring.nodes[start])
        for step in range(1, count):
            received = self.operation.partial(values, self.type)
            own = self.values(ring.nodes[(start + step) % count])
            values = np.concatenate([own, received[None]])
        return values
