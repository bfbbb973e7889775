"""Address: one entry of a collective's address list."""

from collections.abc import Iterable
from typing import NamedTuple

from fanin.driver import ffi


class Address(NamedTuple):
    """The source and the destination of a rank: ranges of blocks of the message, without gaps in memory.

    source and destination: virtual addresses of the first block of each range. No blocks: the rank brings (wants)
    nothing. By default a message is one block, which every rank brings and wants.
    """

    source: int = 0
    destination: int = 0
    source_first: int = 0
    source_blocks: int = 1
    destination_first: int = 0
    destination_blocks: int = 1


def packed(addresses: Iterable[Address]) -> bytes:
    """A list of struct fanin_address, for registered memory (CollectiveWR.list_address)."""
    rows = ffi.new("struct fanin_address[]", [address._asdict() for address in addresses])
    return bytes(ffi.buffer(rows))
