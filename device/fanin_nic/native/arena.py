"""Arenas: all state of an engine or a transport in one block of memory, a header record with tables behind it."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

ALIGNMENT = 64  # bytes, of the block and of each table


class Table(NamedTuple):
    """The row type of a table, and the member of the header record with its offset in the arena."""

    dtype: np.dtype
    offset: str


class Arena:
    """An arena, all zero but for the offsets of its tables.

    `base`: its address, which compiled code gets. `header`: the header record. `tables`: numpy views by name.
    """

    def __init__(self, header: np.dtype, tables: Mapping[str, Table], rows: Mapping[str, int]) -> None:
        offsets, size = {}, _aligned(header.itemsize)
        for name, count in rows.items():
            offsets[name] = size
            size = _aligned(size + count * tables[name].dtype.itemsize)
        self._memory = np.zeros(size + ALIGNMENT, np.uint8)
        start = -self._memory.ctypes.data % ALIGNMENT
        self.arena = self._memory[start : start + size]
        self.base = int(self.arena.ctypes.data)
        self.header = self.arena[: header.itemsize].view(header)[0]
        self.tables: dict[str, np.ndarray] = {}
        for name, (dtype, offset) in tables.items():
            first = offsets[name]
            self.tables[name] = self.arena[first : first + rows[name] * dtype.itemsize].view(dtype)
            self.header[offset] = first

    @property
    def next_deadline(self) -> int:
        """Time in ns of the next `tick` with an effect; 2^64 - 1: never."""
        return int(self.header["next_deadline"])


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
