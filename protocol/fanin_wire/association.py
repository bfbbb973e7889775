"""In which order a job folds the data of its ranks: what the reproducible modes promise, as numpy code.

Floating-point results depend on the order of adding and on where a value is rounded. Without a reproducible mode a
device adds in the order of arrival. With one (`run` or `shape`) the order follows from the job's path alone, and
`reduce` gives the same bits as the devices:

- a device (NIC or switch) folds what its children give from the lowest bit to the highest. f16 and bf16 are computed in
  f32 in a device, and rounded once at its output;
- in a ring the starting node folds its ranks; each next one folds its own ranks and then adds the partial that it has
  received;
- the completing device divides for MEAN, and only then rounds;
- in a job whose partials are wide nothing but the result is rounded.

A ring of mode `run` starts segment k at node (k + 1) mod n; one of mode `shape`, and one that is the child of a switch,
starts all at node 0. So the chain of `shape` gives the bits of one switch above the same nodes: both add the nodes'
partials, which are f32 for f16 and bf16, from the first to the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from fanin_wire.datatypes import DataType, datatype_by_name, datatype_of
from fanin_wire.operations import Operation

F32 = datatype_by_name("f32")


class Device(NamedTuple):
    """A NIC or a switch: what is below it in the order of the bits. A number is a rank."""

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

    `wide`: partials of f16 and bf16 travel as f32. `datatype` tells what the dtype does not: that uint16 are bf16.
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
    """The result of a message that is cut into `segments`: (first, end) in elements, segment 0 first."""
    if not (isinstance(path, Ring) and path.rotates):  # the order is the same for all segments
        segments = [(0, contributions.shape[1])]
    result = np.zeros_like(contributions[0])
    octets, size = result.view(np.uint8), contributions.dtype.itemsize  # numpy leaves the padding of pairs open
    for sid, (first, end) in enumerate(segments):
        segment = reduce(path, contributions[:, first:end], operation, datatype, wide=wide, sid=sid)
        octets[first * size : end * size] = segment.view(np.uint8)
    return result


def ranks_of(path: Path) -> int:
    """How many ranks are below a device."""
    if isinstance(path, int):
        return 1
    return sum(ranks_of(below) for below in (path.nodes if isinstance(path, Ring) else path.children))


class _Fold(NamedTuple):
    """One segment on its way up. `wide`: what travels between devices is f32 instead of `datatype`."""

    contributions: np.ndarray
    operation: Operation
    datatype: DataType
    wide: bool
    sid: int

    @property
    def type(self) -> DataType:
        """The type of what travels between devices."""
        return F32 if self.wide else self.datatype

    def output(self, path: Path) -> np.ndarray:
        """What a rank or a device gives to the device above."""
        if isinstance(path, int):
            own = self.contributions[path : path + 1]
            return self.operation.partial(own, self.datatype, wide=True) if self.wide else own[0]
        return self.operation.partial(self.values(path), self.type)

    def values(self, path: Path) -> np.ndarray:
        """What the last device of a path folds, in order; shape (values, elements)."""
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
