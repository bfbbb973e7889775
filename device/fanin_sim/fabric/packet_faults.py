"""What links and memory do to a simulation: a schedule drawn from its seed."""

from __future__ import annotations

import random
from typing import NamedTuple


class Faults(NamedTuple):
    """Probabilities per packet, and delays in ns. `jitter` above the time between packets reorders them."""

    loss: float = 0.0
    duplication: float = 0.0
    delay: int = 10_000
    jitter: int = 0
    read_delay: int = 2_000  # of a DMA read of process memory
    read_jitter: int = 0

    def arrivals(self, rng: random.Random) -> list[int]:
        """Delays after which copies of one packet arrive; empty: it is lost."""
        copies = 2 if rng.random() < self.duplication else 1
        return [_random_delay(self.delay, self.jitter, rng) for _ in range(copies) if rng.random() >= self.loss]

    def read(self, rng: random.Random) -> int:
        """Delay of one DMA read."""
        return _random_delay(self.read_delay, self.read_jitter, rng)


def _random_delay(delay: int, jitter: int, rng: random.Random) -> int:
    return delay + (rng.randrange(jitter) if jitter else 0)
