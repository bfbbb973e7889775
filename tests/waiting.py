"""How tests wait: for what is to happen, as long as a machine may take that has many more threads than cores.

A bound is there so that a test that hangs fails; no test passes because a bound is short. A device of a test in which a
member is lost has `DETECTION_S`: a process that gets no core for a second is not dead.
"""

import time
from collections.abc import Callable
from typing import TypeVar

BOUND_S = 120.0  # longest that anything may take before a test fails
TORCH_BOUND_S = 600.0  # the same for processes that import torch, each for itself
DETECTION_S = 3.0
POLL_S = 0.02

Seen = TypeVar("Seen")


def eventually(look: Callable[[], Seen], good: Callable[[Seen], object] = bool, seconds: float = BOUND_S) -> Seen:
    """What `look` gives as soon as it is `good`; fails with the last look after `seconds`."""
    end = time.monotonic() + seconds
    while not good(seen := look()):
        assert time.monotonic() < end, f"still so after {seconds:g} s: {seen}"
        time.sleep(POLL_S)
    return seen
