"""A lower bound of the time of an allreduce, for as many cores as the device uses."""

import os

from fanin_tools.bench import memory
from fanin_tools.bench.setups import Setup


def bound_us(setup: Setup, size: int) -> float | None:
    """A lower bound in microseconds for an allreduce of `size` bytes; None for links without a rate.

    Shaped links: each carries the message once. One node: every rank's data are read and its result is written, at the
    best speed of this machine's memory with as many cores as the device uses. It does not bind peers, whose ranks copy
    on all cores.
    """
    if setup.netns:
        return None if setup.link_speed is None else size / setup.link_speed * 1e6
    cores = min(setup.lane_count, os.cpu_count() or 1)
    return memory.measure(setup.ranks * size, cores).read_and_write_us
