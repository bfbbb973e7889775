"""The bandwidth between nodes: an adjacency matrix [65], of which a failure needs few new measurements."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fanin_train.errors import TrainingError


class UnknownBandwidth(TrainingError):
    """A pair of nodes that was never measured."""

    def __init__(self, sender: str, receiver: str) -> None:
        super().__init__(
            f"UNKNOWN_BANDWIDTH: from {sender} to {receiver} nothing was measured", "measure the pair and note it"
        )


@dataclass
class Bandwidths:
    """Bytes per second by (sender, receiver); 0: not connected."""

    of_pairs: dict[tuple[str, str], float] = field(default_factory=dict)

    def note(self, sender: str, receiver: str, bytes_per_second: float) -> None:
        """Take a measurement in place of an earlier one."""
        self.of_pairs[sender, receiver] = bytes_per_second

    def between(self, sender: str, receiver: str) -> float:
        """Bytes per second. UnknownBandwidth if the pair was not measured."""
        if (sender, receiver) not in self.of_pairs:
            raise UnknownBandwidth(sender, receiver)
        return self.of_pairs[sender, receiver]


def pairs_after_failure(previous: str, following: str, candidates: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs that the choice looks at and that need measuring: 2 for each candidate, not n (n - 1)."""
    return [pair for each in candidates for pair in ((previous, each), (each, following))]


def rounds_of(pairs: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """The pairs in rounds, each node at most once in a round, so that no measurement disturbs another."""
    rounds: list[list[tuple[str, str]]] = []
    for pair in dict.fromkeys(pairs):
        for taken in rounds:
            if not any(set(pair) & set(other) for other in taken):
                taken.append(pair)
                break
        else:
            rounds.append([pair])
    return rounds
