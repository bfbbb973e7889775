"""The collectives as data: which ranks bring which blocks of the message, and which ranks want which.

A message is one block, or a block for each rank (`divided`). Devices know only what a row means for one rank.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from fanin_wire.abi import ContributorClass


class Who(IntEnum):
    """Which ranks."""

    NOBODY = 0
    EVERYONE = 1
    ROOT = 2
    OTHERS = 3  # all but the root

    def includes(self, rank: int, root: int) -> bool:
        return self is Who.EVERYONE or (self is Who.ROOT and rank == root) or (self is Who.OTHERS and rank != root)


class Side(NamedTuple):
    """What ranks bring or want: the whole message, or each its own block."""

    who: Who
    own: bool = False


class Collective(NamedTuple):
    """code: enum fanin_collective of fanin.h. contributors: enum fanin_class of its positions."""

    code: int
    name: str
    contributors: int
    divided: bool
    brings: Side
    wants: Side

    @property
    def reduces(self) -> bool:
        """Whether devices compute."""
        return self.contributors == ALL

    @property
    def is_vector(self) -> bool:
        """Whether some ranks may not know its sizes: the v-forms."""
        return self.name.endswith("v")

    @property
    def has_root(self) -> bool:
        return not {self.brings.who, self.wants.who} <= {Who.EVERYONE, Who.NOBODY}


NONE, ONE, ALL = (int(ContributorClass[name]) for name in ("NONE", "ONE", "ALL"))

# code, name, class, divided; who brings; who wants
COLLECTIVES = (
    Collective(0, "allreduce", ALL, False, Side(Who.EVERYONE), Side(Who.EVERYONE)),
    Collective(1, "reduce", ALL, False, Side(Who.EVERYONE), Side(Who.ROOT)),
    Collective(2, "reduce_scatter", ALL, True, Side(Who.EVERYONE), Side(Who.EVERYONE, own=True)),
    Collective(3, "broadcast", ONE, False, Side(Who.ROOT), Side(Who.OTHERS)),
    Collective(4, "allgather", ONE, True, Side(Who.EVERYONE, own=True), Side(Who.EVERYONE)),
    Collective(5, "gather", ONE, True, Side(Who.EVERYONE, own=True), Side(Who.ROOT)),
    Collective(6, "scatter", ONE, True, Side(Who.ROOT), Side(Who.EVERYONE, own=True)),
    Collective(7, "barrier", NONE, False, Side(Who.NOBODY), Side(Who.NOBODY)),
    Collective(8, "allgatherv", ONE, True, Side(Who.EVERYONE, own=True), Side(Who.EVERYONE)),
    Collective(9, "gatherv", ONE, True, Side(Who.EVERYONE, own=True), Side(Who.ROOT)),
    Collective(10, "scatterv", ONE, True, Side(Who.ROOT), Side(Who.EVERYONE, own=True)),
)

_BY_NAME = {row.name: row for row in COLLECTIVES}


def collective(name: str) -> Collective:
    """The row of a collective; KeyError for an unknown name."""
    return _BY_NAME[name]
