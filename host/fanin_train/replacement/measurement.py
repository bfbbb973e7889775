"""The bandwidth of pairs of processes, measured by Fanin's own traffic: broadcasts in jobs of two ranks."""

import time
from collections.abc import Iterable, Mapping

import numpy as np

from fanin import Communicator
from fanin_train.replacement.records import Bandwidths, rounds_of

SENDER, RECEIVER = 0, 1


def measure(
    pool: Communicator, ranks: Mapping[str, int], pairs: Iterable[tuple[str, str]], size: int, timeout: float
) -> Bandwidths:
    """Measure pairs. All ranks of `pool` call this with the same arguments, and get the same results.

    Args:
        pool: the processes.
        ranks: in `pool`, by name.
        pairs: names of senders and receivers. Disjoint pairs are measured at the same time.
        size: bytes of a broadcast.
        timeout: of a step, seconds.
    """
    measured = Bandwidths()
    for together in rounds_of(pairs):
        mine = next((at for at, pair in enumerate(together) if pool.rank in (ranks[pair[0]], ranks[pair[1]])), None)
        side = RECEIVER if mine is None or pool.rank == ranks[together[mine][1]] else SENDER
        group, seconds = pool.split(mine, side, timeout), 0.0
        if group is not None:
            with group:
                seconds = _seconds(group, size, timeout)
        all_seconds = pool.allgather(np.array(seconds), timeout=timeout)
        for sender, receiver in together:
            measured.note(sender, receiver, size / float(all_seconds[ranks[receiver]]))
    return measured


def _seconds(pair: Communicator, size: int, timeout: float) -> float:
    """Seconds of a broadcast, from when both ranks are ready until it is complete on both."""
    data = pair.alloc(size, np.uint8)
    pair.broadcast(data, root=SENDER, timeout=timeout)
    pair.barrier(timeout=timeout)
    begin = time.perf_counter()
    pair.broadcast(data, root=SENDER, timeout=timeout)
    pair.barrier(timeout=timeout)
    return time.perf_counter() - begin
