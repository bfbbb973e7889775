"""Memory for tensors which the device reads and writes without a copy."""

from __future__ import annotations

import weakref
from collections import defaultdict

import numpy as np
import torch

from fanin.errors import NotSupported
from fanin.verbs import MR, PD
from fanin_torch.errors import as_torch

MOST_FREE = 1 << 28  # bytes that are kept for tensors to come


class RegisteredMemory:
    """Of the connection to one device. All groups that use the connection share it."""

    def __init__(self, pd: PD) -> None:
        self._pd = pd
        self._blocks: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()  # by address
        self._free: defaultdict[int, list[np.ndarray]] = defaultdict(list)  # by length in bytes

    def holds(self, array: np.ndarray) -> bool:
        """Whether the elements of an array lie in it."""
        if not self._blocks:
            return False
        start = _address(array)
        for each in self._blocks.valuerefs():  # a list of its own: other threads may add blocks
            block = each()
            if block is not None and each.key <= start and start + array.nbytes <= each.key + block.nbytes:
                return True
        return False

    def empty(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A tensor of `count` elements with any content. Its memory is used again for one of the same length, since
        programs that ask for such tensors do so in every step."""
        length = count * dtype.itemsize
        if not length:
            return torch.empty(count, dtype=dtype)
        try:
            block = self._free[length].pop()
        except IndexError:
            block = self._new_block(length)
        view = block[:]
        weakref.finalize(view, self._give_back, block).atexit = False
        return torch.from_numpy(view).view(dtype)  # its storage has `view`

    def _give_back(self, block: np.ndarray) -> None:
        free = sum(length * len(blocks) for length, blocks in list(self._free.items()))
        if free + block.nbytes <= MOST_FREE:
            self._free[block.nbytes].append(block)

    def take_in(self, tensor: torch.Tensor) -> None:
        """Let all of a tensor's storage lie here, unless it does. Nobody may have its address.

        Raises:
            NotSupported: torch is older than 2.13.
        """
        storage = tensor.untyped_storage()
        if storage.data_ptr() in self._blocks or not storage.nbytes():
            return
        if not hasattr(storage, "_swap_data_ptr_"):
            raise as_torch(
                NotSupported(
                    f"registered buckets with torch {torch.__version__}",
                    remedy="Use torch 2.13 or newer, or no hook: buckets are then copied.",
                )
            )
        with torch.no_grad():
            other = torch.from_numpy(self._new_block(storage.nbytes())).untyped_storage()
            other.copy_(storage)
            storage._swap_data_ptr_(other)  # the storage owns the block from now on

    def _new_block(self, length: int) -> np.ndarray:
        block = np.frombuffer(MR(self._pd, length).buf, np.uint8, length)
        self._blocks[_address(block)] = block
        return block


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
