"""perftest can fail to measure the processor's frequency on a busy machine: its figures are 0, and it runs again."""

from collections.abc import Callable
from typing import TypeVar

Outcome = TypeVar("Outcome")
NO_FREQUENCY = "Correlation coefficient r^2"  # begins perftest's line about a failed measurement
TRIES = 5


def until_timed(run: Callable[[], Outcome], text_of: Callable[[Outcome], str]) -> Outcome:
    """The first outcome of `run` whose text has a frequency. Raises AssertionError after TRIES runs."""
    for _ in range(TRIES):
        outcome = run()
        if NO_FREQUENCY not in text_of(outcome):
            return outcome
    raise AssertionError(f"perftest found no steady frequency of the processor in {TRIES} runs")
