"""The vector clock of a node: what each node has finished, as far as this one knows."""

from collections.abc import Iterable

NEVER = 1 << 62  # the order of a node for which nobody waits


class VectorClock:
    """The last order that each member has finished. An entry never goes back."""

    def __init__(self, ranks: Iterable[int]) -> None:
        self._entries = dict.fromkeys(ranks, 0)

    def advance(self, rank: int, order: int) -> None:
        """A member has finished `order`. Nothing of a node that is no member is kept."""
        if self._entries.get(rank, order) < order:
            self._entries[rank] = order

    def add(self, rank: int, order: int) -> None:
        """A node becomes a member, unless it is one."""
        self._entries.setdefault(rank, order)

    def remove(self, rank: int) -> None:
        """A node is no member any longer."""
        self._entries.pop(rank, None)

    def minimum(self) -> int:
        """What all members have finished."""
        return min(self._entries.values())

    def minimum_of_others(self, rank: int) -> int:
        """What all members but one have finished; NEVER, if there is no other."""
        return min((order for each, order in self._entries.items() if each != rank), default=NEVER)

    def entries(self) -> dict[int, int]:
        """A copy, by rank."""
        return dict(sorted(self._entries.items()))

    def __contains__(self, rank: int) -> bool:
        return rank in self._entries
