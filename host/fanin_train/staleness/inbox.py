"""The gradients that a node has received: each is applied once, in a defined order."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from fanin_train.staleness.messages import Contribution, Version


class Inbox:
    """Gradients by number and rank.

    keep: how many of each node are kept after use, for a node that adopts parameters without them. start: the number
    before the first gradient of each node.
    """

    def __init__(self, keep: int = 0, start: int = 0) -> None:
        self._keep, self._nothing = keep, Version(start)
        self._pending: dict[tuple[int, int], Any] = {}
        self._received: dict[int, Version] = {}
        self._history: dict[int, deque[Contribution]] = {}

    def put(self, rank: int, number: int, gradient: Any) -> bool:
        """Store a gradient. Returns False for a duplicate, which is dropped."""
        last, missing = self._received.get(rank, self._nothing)
        if number > last:
            lost = missing.union(range(last + 1, number)) if number > last + 1 else missing
            self._received[rank] = Version(number, lost)
        elif number in missing:
            self._received[rank] = Version(last, missing - {number})
        else:
            return False
        self._pending[number, rank] = gradient
        if self._keep:
            history = self._history.setdefault(rank, deque(maxlen=self._keep))
            history.append(Contribution(number, rank, gradient))
        return True

    def take(self, horizon: int) -> tuple[Contribution, ...]:
        """Remove and return the gradients up to a number, by number and rank."""
        keys = sorted(key for key in self._pending if key[0] <= horizon)
        return tuple(Contribution(*key, self._pending.pop(key)) for key in keys)

    def has_all(self, rank: int, number: int) -> bool:
        """Whether every gradient of a node up to a number has been received."""
        last, missing = self._received.get(rank, self._nothing)
        return last >= number and not any(each <= number for each in missing)

    def numbers(self) -> list[int]:
        """Of the gradients not yet taken."""
        return sorted({number for number, _ in self._pending})

    def applied(self) -> Mapping[int, Version]:
        """The content of the parameters: all gradients received and taken."""
        versions = dict(self._received)
        for number, rank in self._pending:
            last, missing = versions[rank]
            versions[rank] = Version(last, missing | {number})
        return versions

    def adopt(self, contains: Mapping[int, Version], latest: Iterable[Contribution] = ()) -> tuple[Contribution, ...]:
        """The parameters now contain these. Returns the gradients here that they lack, to be applied."""
        for each in latest:
            self.put(each.rank, each.number, each.gradient)
        lacking = sorted(
            (
                each
                for history in self._history.values()
                for each in history
                if (each.number, each.rank) not in self._pending
                and not contains.get(each.rank, self._nothing).includes(each.number)
            ),
            key=lambda each: each[:2],
        )
        for rank, version in contains.items():
            self._received[rank] = _union(version, self._received.get(rank, self._nothing))
            for number, owner in list(self._pending):
                if owner == rank and version.includes(number):
                    del self._pending[number, owner]
        return tuple(lacking)

    def latest(self, rank: int) -> tuple[Contribution, ...]:
        """The kept gradients of a node."""
        return tuple(self._history.get(rank, ()))


def _union(one: Version, other: Version) -> Version:
    low, high = sorted((one, other))
    missing = {number for number in high.missing if not low.includes(number)}
    return Version(high.last, frozenset(missing))
