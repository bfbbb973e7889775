"""From a row of the table to work requests: which blocks one rank brings and wants in each message.

Devices take messages of equal blocks, of which the last may be shorter. Blocks of uneven sizes are cut into runs that
are such messages; all ranks know all sizes, so all cut alike. So is a long message that is one block, wherever a rank's
memory is: those who have to copy it can then do so part by part (`relay`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from fanin.collectives import NONE, Collective, Side


class Piece(NamedTuple):
    """What a rank brings to (wants of) a message: a range of its blocks, and where they lie in the rank's buffer."""

    first: int = 0
    blocks: int = 0
    offset: int = 0  # bytes from the start of the buffer
    nbytes: int = 0


class Part(NamedTuple):
    """One message of a collective, as one rank posts it."""

    length: int  # bytes of all blocks
    block: int  # bytes of a block; the last may be shorter
    source: Piece
    destination: Piece


class Run(NamedTuple):
    """Neighbouring blocks that one message can carry: equal ones, and perhaps a shorter one at the end."""

    sizes: list[int]  # bytes
    owners: list[int]  # the rank that each belongs to
    offset: int  # bytes of all blocks before them


NOTHING = Piece()
PART = 512 << 10  # bytes: a longer message of one block goes in messages of so many, or if that is too many ...
MOST_PARTS = 128  # ... of twice, four times ... as many: all parts find room in a send queue


@functools.lru_cache(maxsize=1024)
def plan(row: Collective, rank: int, root: int, sizes: tuple[int, ...]) -> tuple[Part, ...]:
    """The messages of a collective for one rank. `sizes`: bytes of the blocks; one for each rank if it is divided.

    No bytes, no message: nothing is posted then, on any rank.
    """
    if row.contributors == NONE:
        return (Part(0, 0, NOTHING, NOTHING),)
    return tuple(
        Part(sum(run.sizes), run.sizes[0], piece(row.brings, run, rank, root), piece(row.wants, run, rank, root))
        for run in (runs(sizes) if row.divided else parts_of(sizes[0]))
    )


def runs(sizes: tuple[int, ...]) -> Iterator[Run]:
    """Cut blocks into runs. Empty blocks take no place in any message."""
    run = Run([], [], 0)
    for owner, size in enumerate(sizes):
        if size == 0:
            continue
        closed = run.sizes and (run.sizes[-1] < run.sizes[0] or size > run.sizes[0])
        if closed:
            yield run
            run = Run([], [], run.offset + sum(run.sizes))
        run.sizes.append(size)
        run.owners.append(owner)
    if run.sizes:
        yield run


def part_length(size: int) -> int:
    """Bytes of a part of a message of one block; the last may be shorter."""
    length = PART
    while length * MOST_PARTS < size:
        length *= 2
    return length


def parts_of(size: int) -> Iterator[Run]:
    """A message of one block, in parts if it is long. No bytes are no message."""
    length = part_length(size)
    for offset in range(0, size, length):
        yield Run([min(length, size - offset)], [0], offset)


def piece(side: Side, run: Run, rank: int, root: int) -> Piece:
    """A rank's side of a run. Its own block is all that its buffer holds; else the buffer holds the whole message."""
    if not side.who.includes(rank, root) or (side.own and rank not in run.owners):
        return NOTHING
    if side.own:
        place = run.owners.index(rank)
        return Piece(place, 1, 0, run.sizes[place])
    return Piece(0, len(run.sizes), run.offset, sum(run.sizes))
