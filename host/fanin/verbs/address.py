"""Address: one entry of a collective's address list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fanin.driver import ffi


class Address(NamedTuple):
    """The source and the destination of a rank: ranges of blocks of the message, without gaps in memory.

    source and destination: virtual addresses of this process where the first block of each range lies. No blocks: the
    rank brings (wants) nothing. By default a message is one block, which every rank brings and wants.
    """

    source: int = 0
    destination: int = 0
    source_first: int = 0
    source_blocks: int = 1
    destination_first: int = 0
    destination_blocks: int = 1

    def store(self, row: Any) -> None:
        """Into a struct fanin_address."""
        for name, value in zip(self._fields, self, strict=True):
            setattr(row, name, value)


def packed(addresses: Iterable[Address]) -> bytes:
    """A list of struct fanin_address, for registered memory (CollectiveWR.list_address)."""
    entries = list(addresses)
    rows = ffi.new("struct fanin_address[]", len(entries))
    for row, address in zip(rows, entries, strict=True):
        address.store(row)
    return bytes(ffi.buffer(rows))
