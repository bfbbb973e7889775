"""What links do to packets: a schedule drawn from the simulation's seed."""

from __future__ import annotations

import random
from typing import NamedTuple


class Faults(NamedTuple):
    """Probabilities per packet, and delays in ns."""

    loss: float = 0.0
    duplication: float = 0.0
    delay: int = 10_000
    jitter: int = 0

    def arrivals(self, chance: random.Random) -> list[int]:
        """Delays after which copies of one packet arrive; empty: it is lost."""
        copies = 2 if chance.random() < self.duplication else 1
        return [
            self.delay + (chance.randrange(self.jitter) if self.jitter else 0)
            for _ in range(copies)
            if chance.random() >= self.loss
        ]
