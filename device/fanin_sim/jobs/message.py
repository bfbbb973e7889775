"""A message of a simulated job: the blocks of each rank, its segments, its data, and the expected result.

The `data` of a reduction have a row for each rank. The `data` of any other collective are the message itself; each rank
contributes its blocks of it.
"""

import enum
from typing import NamedTuple

import numpy as np

from fanin_wire import abi
from fanin_wire.abi import ContributorClass, JobFlag
from fanin_wire.arithmetic import narrow
from fanin_wire.association import Path, reduce_message
from fanin_wire.datatypes import DataType, Family, datatype_by_name, datatype_of
from fanin_wire.operations import operation_by_name

BYTES = datatype_by_name("u8")
# The flags of each reproducible mode. A ring in mode "shape" starts all segments at node 0.
MODES = {"none": 0, "run": JobFlag.REPRODUCIBLE_RUN, "shape": JobFlag.REPRODUCIBLE_SHAPE | JobFlag.WIDE}


# Collectives


class Share(enum.Enum):
    """The blocks of a message that a rank contributes or receives."""

    NOTHING = "nothing"
    WHOLE = "the whole message"
    OWN = "the block of its number"
    AT_ROOT = "the whole message at the root, else nothing"
    NOT_AT_ROOT = "nothing at the root, else the whole message"

    def blocks(self, rank: int, root: int, count: int) -> tuple[int, int]:
        """The blocks of a rank, (first, number), out of `count` blocks."""
        if self is Share.OWN:
            return rank, 1
        is_root = rank == root
        has_all = {Share.WHOLE: True, Share.AT_ROOT: is_root, Share.NOT_AT_ROOT: not is_root}.get(self, False)
        return (0, count) if has_all else (0, 0)


class Collective(NamedTuple):
    """`per_rank`: the message has one block for each rank; otherwise it is one block."""

    contributors: ContributorClass
    per_rank: bool
    brings: Share
    wants: Share


# The devices do not use this table.
COLLECTIVES = {
    "allreduce": Collective(ContributorClass.ALL, False, Share.WHOLE, Share.WHOLE),
    "reduce": Collective(ContributorClass.ALL, False, Share.WHOLE, Share.AT_ROOT),
    "reduce_scatter": Collective(ContributorClass.ALL, True, Share.WHOLE, Share.OWN),
    "broadcast": Collective(ContributorClass.ONE, False, Share.AT_ROOT, Share.NOT_AT_ROOT),
    "allgather": Collective(ContributorClass.ONE, True, Share.OWN, Share.WHOLE),
    "gather": Collective(ContributorClass.ONE, True, Share.OWN, Share.AT_ROOT),
    "scatter": Collective(ContributorClass.ONE, True, Share.AT_ROOT, Share.OWN),
    "barrier": Collective(ContributorClass.NONE, False, Share.NOTHING, Share.NOTHING),
}


# Messages


class Message:
    """A message of `ranks` ranks.

    Args:
        block: elements of a block. By default each rank has one block, of which the last may be shorter, or the whole
            message is one block.
        datatype: the type of the elements, if the dtype does not determine it: uint16 may hold bf16.

    Raises:
        ValueError: the elements can not be divided into the blocks.
    """

    def __init__(
        self,
        collective: str,
        data: np.ndarray,
        ranks: int,
        *,
        operation: str = "SUM",
        datatype: DataType | None = None,
        root: int = 0,
        block: int | None = None,
    ) -> None:
        self.collective = COLLECTIVES[collective]
        self.data, self.ranks, self.root = data, ranks, root
        self.operation = operation_by_name(operation)
        self.datatype = datatype or datatype_of(data.dtype)
        self.elements = data.shape[-1]
        self.block = block or (-(-self.elements // ranks) if self.collective.per_rank else self.elements)
        if self.collective.per_rank and self.elements and not (ranks - 1) * self.block < self.elements:
            raise ValueError(f"{self.elements} elements are no {ranks} blocks of {self.block}")

    @property
    def blocks(self) -> int:
        return -(-self.elements // self.block) if self.block else 0

    def brings(self, rank: int) -> tuple[int, int]:
        """The blocks that a rank contributes, (first, number)."""
        return self.collective.brings.blocks(rank, self.root, self.blocks) if self.blocks else (0, 0)

    def wants(self, rank: int) -> tuple[int, int]:
        """The blocks that a rank receives, (first, number)."""
        return self.collective.wants.blocks(rank, self.root, self.blocks) if self.blocks else (0, 0)

    def source(self, rank: int) -> np.ndarray:
        row = self.data[rank] if self.data.ndim == 2 else self.data
        return row[self._elements(self.brings(rank))]

    def result(self, rank: int) -> np.ndarray:
        """An array of zeros for the elements that a rank receives."""
        return np.zeros_like(self.data, shape=len(range(self.elements)[self._elements(self.wants(rank))]))

    def expected(self, path: Path, segment_bytes: int, *, wide: bool) -> list[np.ndarray]:
        """The expected result of each rank; data are reduced along `path` (see `fanin_wire.association`)."""
        whole = self.data
        if self.collective.contributors == ContributorClass.ALL:
            bounds = self.segments(segment_bytes)
            whole = reduce_message(path, self.data, self.operation, bounds, self.datatype, wide=wide)
        return [whole[self._elements(self.wants(rank))] for rank in range(self.ranks)]

    # Segments

    def segment_bytes(self, chunk: int, *, wide: bool) -> int:
        """The bytes of the message in a full segment: less than a chunk if the partials are wider."""
        is_reduced = self.collective.contributors == ContributorClass.ALL
        return chunk // self.operation.widening(self.datatype) if wide and is_reduced else chunk

    def segments(self, segment_bytes: int) -> list[tuple[int, int]]:
        """(first, end) of each segment, in elements. A segment never crosses the end of a block."""
        step = segment_bytes // self.datatype.itemsize
        return [
            (first, min(first + step, start + self.block, self.elements))
            for start in range(0, self.elements, self.block or 1)
            for first in range(start, min(start + self.block, self.elements), step)
        ]

    def describe(self, wqe: np.ndarray, rank: int, segment_bytes: int) -> None:
        """Fills in a rank's WQE except for the addresses. A message of no bytes is posted as a barrier."""
        contributors = self.collective.contributors if self.elements else ContributorClass.NONE
        reduces = contributors == ContributorClass.ALL
        datatype = self.datatype if reduces else BYTES
        size = self.datatype.itemsize
        wqe["op"], wqe["dtype"] = self.operation.code if reduces else abi.Op.NONE, datatype.code
        wqe["contributors"] = contributors
        wqe["length"], wqe["block"] = self.elements * size, self.block * size
        wqe["segments"] = len(self.segments(segment_bytes)) if self.elements else 1
        address = wqe["address"]
        address["source_first"], address["source_blocks"] = self.brings(rank)
        address["destination_first"], address["destination_blocks"] = self.wants(rank)

    def _elements(self, blocks: tuple[int, int]) -> slice:
        first, count = blocks
        return slice(first * self.block, (first + count) * self.block)


# Data


def order_independent(datatype: DataType, operation: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Contributions whose result does not depend on the order of reduction or on intermediate rounding.

    They are small whole numbers: a bf16 holds the sum of 256 of them exactly. For PROD of floats they are 1 and -1.
    """
    generator = np.random.default_rng(seed)
    if datatype.family == Family.INTEGER:
        limits = np.iinfo(datatype.numpy)
        return generator.integers(limits.min, limits.max, shape, datatype.numpy, endpoint=True)
    small = generator.integers(-1, 1, shape, np.int8, endpoint=True)
    if operation == "PROD":
        small |= 1
    if datatype.family == Family.PAIR:
        pairs = np.zeros(shape, datatype.numpy)
        pairs["value"], pairs["index"] = small, generator.integers(0, 1000, shape)
        return pairs
    if datatype.family == Family.COMPLEX:
        return (small + 1j * generator.integers(-1, 1, shape, np.int8, endpoint=True)).astype(datatype.numpy)
    return _stored(small, datatype)


def order_dependent(datatype: DataType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Floats of many magnitudes: the bits of their sum depend on the order of addition."""
    generator = np.random.default_rng(seed)
    values = np.zeros(shape, datatype.numpy)
    for row in values:
        numbers = generator.standard_normal(shape[-1], np.float32)
        row[:] = _stored(np.ldexp(numbers, generator.integers(-6, 6, shape[-1], np.int32)), datatype)
    return values


def _stored(numbers: np.ndarray, datatype: DataType) -> np.ndarray:
    if datatype.family == Family.SMALL_FLOAT:
        return narrow(numbers.astype("<f4"), datatype)
    return numbers.astype(datatype.numpy)
