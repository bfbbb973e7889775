"""What no implementation can beat with as many cores as the device uses, beside which the measured times stand."""

from __future__ import annotations

import os

from fanin_tools.bench import memory
from fanin_tools.bench.setups import Setup


def bound_us(setup: Setup, size: int) -> float | None:
    """Least microseconds of an allreduce of `size` bytes; None where nothing bounds it that can be told beforehand.

    Shaped links: each link carries the message once, S/B. One node: every rank's data are read and every rank's result
    is written, at the best speed that the memory of this machine has with as many cores as the device uses. More cores
    may read faster: a peer, whose ranks copy on all of them, is not bound by this.
    """
    if setup.netns:
        return None if setup.link_speed is None else size / setup.link_speed * 1e6
    cores = min(setup.lane_count, os.cpu_count() or 1)
    return memory.measure(setup.ranks * size, cores).read_and_write_us
