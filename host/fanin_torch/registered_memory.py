"""Memory for tensors that the device reads and writes without a copy."""

from __future__ import annotations

import threading
import weakref
from collections import deque

import numpy as np
import torch

from fanin.errors import FaninError, NotSupported
from fanin.memory.buffers import Arena
from fanin.verbs import MR, PD
from fanin_torch.errors import as_torch, refuse

SHARED = 1 << 25  # bytes of a region for several tensors: a device takes few regions from a client
MAX_SHARED_TENSOR = SHARED // 4  # a longer tensor has a region of its own
MAX_FREE = 1 << 28  # bytes of unused regions that are kept for later tensors


class RegisteredMemory:
    """Of one device connection. All its groups share it."""

    def __init__(self, pd: PD) -> None:
        self._pd = pd
        self._blocks: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()  # by address
        self._regions: list[Region] = []
        self._lock = threading.Lock()  # of the regions
        self._returned: deque[tuple[Region, int, int]] = deque()  # regions, and the places of tensors that have ended

    def holds(self, array: np.ndarray) -> bool:
        return self._holds(_address(array), array.nbytes)

    def _holds(self, start: int, length: int) -> bool:
        if not self._blocks:
            return False
        for each in self._blocks.valuerefs():  # a copy: other threads may add blocks
            block = each()
            if block is not None and each.key <= start and start + length <= each.key + block.nbytes:
                return True
        return False

    def empty(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A tensor of `count` elements with any content. Its memory is reused when the tensor has ended, since programs
        ask for such tensors in every step.

        Raises InvalidRequest if the connection is closed, as in a forked child, whose memory is its parent's;
        NoResources if the device takes no more regions from this rank.
        """
        length = count * dtype.itemsize
        if not length:
            return torch.empty(count, dtype=dtype)
        try:
            self._pd.context.require_open()
            with self._lock:
                self._enter_returned()
                region, start = self._take(length)
        except FaninError as error:
            refuse(error)
        finally:
            self._take_back()
        view = region.block[start : start + length]
        weakref.finalize(view, self._end, region, start, length).atexit = False
        return torch.from_numpy(view).view(dtype)  # its storage keeps `view`

    def _take(self, length: int) -> tuple[Region, int]:
        """A region, and the place of `length` bytes in it."""
        is_shared = length <= MAX_SHARED_TENSOR
        size = SHARED if is_shared else length
        for region in self._regions:
            same = (region.is_shared, region.block.nbytes) == (is_shared, size)
            if same and (start := region.arena.take(length)) is not None:
                return region, start
        region = Region(self._new_block(size), is_shared)
        self._regions.append(region)
        region.arena.take(length)
        return region, 0

    def _end(self, region: Region, start: int, length: int) -> None:
        """Of a tensor. The garbage collector may call this anywhere, even in a thread that holds the lock."""
        self._returned.append((region, start, length))
        self._take_back()

    def _take_back(self) -> None:
        """If another thread holds the lock, it does this afterwards."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                self._enter_returned()
            finally:
                self._lock.release()

    def _enter_returned(self) -> None:
        """Under the lock. The oldest unused regions go first."""
        if not self._returned:
            return
        while self._returned:
            region, start, length = self._returned.popleft()
            region.arena.give_back(start, length)
        free = [region for region in self._regions if region.arena.is_free]
        excess = sum(region.block.nbytes for region in free) - MAX_FREE
        for region in free:
            if excess > 0:
                self._regions.remove(region)
                excess -= region.block.nbytes

    def take_in(self, tensor: torch.Tensor) -> None:
        """Move all of a tensor's storage here, unless it is. Nobody may have its address.

        Raises NotSupported: torch before 2.12 can not exchange the memory of storages.
        """
        storage = tensor.untyped_storage()
        if not storage.nbytes() or self._holds(storage.data_ptr(), storage.nbytes()):
            return
        if not hasattr(storage, "_swap_data_ptr_"):
            raise as_torch(
                NotSupported(
                    f"torch {torch.__version__} does not support registered buckets",
                    remedy="Use torch 2.12 or newer, or no hook: buckets are then copied.",
                )
            )
        with torch.no_grad():
            other = self.empty(storage.nbytes(), torch.uint8).untyped_storage()
            other.copy_(storage)
            storage._swap_data_ptr_(other)  # the storage owns the memory from now on

    def _new_block(self, length: int) -> np.ndarray:
        block = np.frombuffer(MR(self._pd, length).buf, np.uint8, length)
        self._blocks[_address(block)] = block
        return block


class Region:
    """Registered memory, and its free bytes. is_shared: for several tensors."""

    def __init__(self, block: np.ndarray, is_shared: bool) -> None:
        self.block, self.is_shared, self.arena = block, is_shared, Arena(block.nbytes)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
