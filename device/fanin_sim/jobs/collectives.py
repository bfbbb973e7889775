"""The collectives as data: the blocks that each rank contributes and receives. Devices do not use this table."""

import enum
from typing import NamedTuple

from fanin_wire.abi import ContributorClass


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
