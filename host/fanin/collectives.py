"""The collectives as data: who brings which blocks of the message, and who wants which.

A message is one block, or a block for each rank ("divided"). Devices know only what comes of these rows for one rank
(`plan`); nothing else in the host library asks which collective it is.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from fanin_wire.abi import ContributorClass


class Who(Enum):
    """Which ranks."""

    NOBODY = "nobody"
    EVERYONE = "everyone"
    ROOT = "the root"
    OTHERS = "all but the root"

    def includes(self, rank: int, root: int) -> bool:
        """Whether `rank` is one of them."""
        return self is Who.EVERYONE or (self is Who.ROOT and rank == root) or (self is Who.OTHERS and rank != root)


class Side(NamedTuple):
    """One side of a collective: who, and whether each has its own block only, or the whole message."""

    who: Who
    own: bool = False


class Collective(NamedTuple):
    """A row of the table."""

    name: str
    contributors: int  # enum fanin_class
    divided: bool  # whether the message is a block for each rank
    brings: Side
    wants: Side

    @property
    def reduces(self) -> bool:
        """Whether devices compute over what the ranks bring."""
        return self.contributors == ALL

    @property
    def has_root(self) -> bool:
        """Whether one rank is another than the rest."""
        return not {self.brings.who, self.wants.who} <= {Who.EVERYONE, Who.NOBODY}


NONE, ONE, ALL = (int(ContributorClass[name]) for name in ("NONE", "ONE", "ALL"))

# name, class, divided; who brings; who wants
COLLECTIVES = (
    Collective("allreduce", ALL, False, Side(Who.EVERYONE), Side(Who.EVERYONE)),
    Collective("reduce", ALL, False, Side(Who.EVERYONE), Side(Who.ROOT)),
    Collective("reduce_scatter", ALL, True, Side(Who.EVERYONE), Side(Who.EVERYONE, own=True)),
    Collective("broadcast", ONE, False, Side(Who.ROOT), Side(Who.OTHERS)),
    Collective("allgather", ONE, True, Side(Who.EVERYONE, own=True), Side(Who.EVERYONE)),
    Collective("gather", ONE, True, Side(Who.EVERYONE, own=True), Side(Who.ROOT)),
    Collective("scatter", ONE, True, Side(Who.ROOT), Side(Who.EVERYONE, own=True)),
    Collective("barrier", NONE, False, Side(Who.NOBODY), Side(Who.NOBODY)),
)

_BY_NAME = {row.name: row for row in COLLECTIVES}


def collective(name: str) -> Collective:
    """The row of a collective; KeyError if there is none."""
    return _BY_NAME[name]
