"""A state of a training, from one rank to all others of a job."""

from typing import Any

import numpy as np

from fanin import Communicator
from fanin_train.packing import pack, unpack


def send(group: Communicator, state: Any, timeout: float | None = None) -> None:
    """Send a state to the others, which receive it from this rank. timeout: seconds of each message."""
    blocks = pack(state)
    sizes = np.array([len(block) for block in blocks])
    group.broadcast(np.array([len(blocks)]), root=group.rank, timeout=timeout)
    group.broadcast(sizes, root=group.rank, timeout=timeout)
    for block in blocks:
        if len(block):
            group.broadcast(block, root=group.rank, timeout=timeout)


def receive(group: Communicator, root: int, timeout: float | None = None) -> list[np.ndarray]:
    """The blocks that `root` sends, for `unpack`."""
    (count,) = group.broadcast(np.zeros(1, np.int64), root=root, timeout=timeout)
    sizes = group.broadcast(np.zeros(count, np.int64), root=root, timeout=timeout)
    blocks = [np.zeros(size, np.uint8) for size in sizes]
    for block in blocks:
        if len(block):
            group.broadcast(block, root=root, timeout=timeout)
    return blocks


def share(group: Communicator, root: int, state: Any, timeout: float | None = None) -> Any:
    """The state of `root`, on all ranks of the group; that of the others is ignored."""
    if group.rank == root:
        send(group, state, timeout)
        return state
    return unpack(receive(group, root, timeout))
