"""Random faults of links and of memory."""

import random
from typing import NamedTuple


class Faults(NamedTuple):
    """Probabilities for each packet, and delays in ns. A `jitter` above the time between packets reorders them."""

    loss: float = 0.0
    duplication: float = 0.0
    delay: int = 10_000
    jitter: int = 0
    read_delay: int = 2_000  # of a DMA read of process memory
    read_jitter: int = 0

    def arrivals(self, rng: random.Random) -> list[int]:
        """The delay of each copy of a packet; none if the packet is lost."""
        copies = 2 if rng.random() < self.duplication else 1
        return [_random_delay(self.delay, self.jitter, rng) for _ in range(copies) if rng.random() >= self.loss]

    def read(self, rng: random.Random) -> int:
        return _random_delay(self.read_delay, self.read_jitter, rng)


def _random_delay(delay: int, jitter: int, rng: random.Random) -> int:
    return delay + (rng.randrange(jitter) if jitter else 0)
