"""Statistics of the times of repetitions."""

from __future__ import annotations

import statistics
from dataclasses import dataclass


def slowest_rank(times: list[list[int]]) -> list[int]:
    """Of each repetition. times: by rank and repetition."""
    return [max(column) for column in zip(*times, strict=True)]


@dataclass(frozen=True)
class Summary:
    """Median, quartiles and least in microseconds, and the number of samples."""

    median: float
    lower: float
    upper: float
    least: float
    samples: int

    @classmethod
    def of(cls, nanoseconds: list[int]) -> Summary:
        if len(nanoseconds) > 1:
            lower, median, upper = statistics.quantiles(nanoseconds, n=4, method="inclusive")
        else:
            lower = median = upper = nanoseconds[0]
        return cls(median / 1000, lower / 1000, upper / 1000, min(nanoseconds) / 1000, len(nanoseconds))

    @property
    def spread(self) -> float:
        """Distance between the quartiles, as a share of the median."""
        return (self.upper - self.lower) / self.median
