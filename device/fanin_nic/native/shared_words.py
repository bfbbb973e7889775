"""For Python: words that other threads or processes read and write. A store by numpy states no order.

The functions of `memory` for Python's integers. Record 0063: why, and what stating every order has found.
"""

from numba import types, uint32, uint64

from fanin_nic.native import memory
from fanin_nic.native.compiled import compiled


@compiled
def load_acquire(address):
    """memory.load_acquire."""
    return memory.load_acquire(uint64(address))


@compiled
def store_release(address, value):
    """memory.store_release."""
    memory.store_release(uint64(address), uint32(value))


@compiled
def store_release_64(address, value):
    """memory.store_release_64."""
    memory.store_release_64(uint64(address), uint64(value))


@compiled
def exchange(address, value):
    """memory.exchange."""
    return memory.exchange(uint64(address), uint32(value))


def prepare() -> None:
    """Compile all, or load all from the cache."""
    load_acquire.compile((types.int64,))
    for function in (store_release, store_release_64, exchange):
        function.compile((types.int64, types.int64))
