"""The vector clock of a node: the orders that all nodes have finished, as far as it knows."""

from collections.abc import Iterable

NEVER = 1 << 62  # the order of a node for which nobody waits


class VectorClock:
    """The last order that each member has finished. An entry never goes back."""

    def __init__(self, ranks: Iterable[int]) -> None:
        self._entries = dict.fromkeys(ranks, 0)

    def advance(self, rank: int, order: int) -> None:
        """A member has finished `order`. Other nodes are ignored."""
        if self._entries.get(rank, order) < order:
            self._entries[rank] = order

    def add(self, rank: int, order: int) -> None:
        """Add a member, unless it is one."""
        self._entries.setdefault(rank, order)

    def remove(self, rank: int) -> None:
        self._entries.pop(rank, None)

    def minimum(self) -> int:
        """The order that all members have finished."""
        return min(self._entries.values())

    def minimum_of_others(self, rank: int) -> int:
        """The order that all other members have finished; NEVER if there is no other."""
        return min((order for each, order in self._entries.items() if each != rank), default=NEVER)

    def entries(self) -> dict[int, int]:
        """A copy, by rank."""
        return dict(sorted(self._entries.items()))

    def __contains__(self, rank: int) -> bool:
        return rank in self._entries
