"""Memory for tensors which the device reads and writes without a copy."""

from __future__ import annotations

import threading
import weakref
from collections import deque

import numpy as np
import torch

from fanin.errors import FaninError, NotSupported
from fanin.memory.arena import Arena
from fanin.verbs import MR, PD
from fanin_torch.errors import as_torch, refuse

SHARED = 1 << 25  # bytes of a region for several tensors: a device takes few regions of a client
LONGEST_SHARING = SHARED // 4  # a longer tensor has a region of its own
MOST_FREE = 1 << 28  # bytes of regions without a tensor, which are kept for tensors to come


class RegisteredMemory:
    """Of the connection to one device. All groups that use the connection share it."""

    def __init__(self, pd: PD) -> None:
        self._pd = pd
        self._blocks: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()  # by address
        self._regions: list[Region] = []
        self._lock = threading.Lock()  # of the regions
        self._returned: deque[tuple[Region, int, int]] = deque()  # regions, and where in them tensors have ended

    def holds(self, array: np.ndarray) -> bool:
        """Whether the elements of an array lie in it."""
        return self._holds(_address(array), array.nbytes)

    def _holds(self, start: int, length: int) -> bool:
        if not self._blocks:
            return False
        for each in self._blocks.valuerefs():  # a list of its own: other threads may add blocks
            block = each()
            if block is not None and each.key <= start and start + length <= each.key + block.nbytes:
                return True
        return False

    def empty(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """A tensor of `count` elements with any content. Its memory is used again when it has ended, since programs
        that ask for such tensors do so in every step.

        Raises:
            InvalidRequest: the connection is closed, as in a forked child, whose memory is its parent's.
            NoResources: the device takes no more regions from this rank.
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
        return torch.from_numpy(view).view(dtype)  # its storage has `view`

    def _take(self, length: int) -> tuple[Region, int]:
        """A region, and where in it `length` bytes have been taken."""
        is_shared = length <= LONGEST_SHARING
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
        """Of a tensor. The collector of garbage may call this anywhere, also in a thread that holds the lock."""
        self._returned.append((region, start, length))
        self._take_back()

    def _take_back(self) -> None:
        """What tensors have returned. Who holds the lock meanwhile does this afterwards."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                self._enter_returned()
            finally:
                self._lock.release()

    def _enter_returned(self) -> None:
        """Under the lock. Of regions without a tensor the oldest go first."""
        if not self._returned:
            return
        while self._returned:
            region, start, length = self._returned.popleft()
            region.arena.give_back(start, length)
        free = [region for region in self._regions if region.arena.is_free]
        excess = sum(region.block.nbytes for region in free) - MOST_FREE
        for region in free:
            if excess > 0:
                self._regions.remove(region)
                excess -= region.block.nbytes

    def take_in(self, tensor: torch.Tensor) -> None:
        """Let all of a tensor's storage lie here, unless it does. Nobody may have its address.

        Raises:
            NotSupported: this torch can not exchange the memory of storages, as 2.12 and newer ones can.
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
    """Registered memory, and which of its bytes are free. is_shared: it is for several tensors."""

    def __init__(self, block: np.ndarray, is_shared: bool) -> None:
        self.block, self.is_shared, self.arena = block, is_shared, Arena(block.nbytes)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
