"""The bytes of messages: each message has its own pattern, in which no packet equals another."""

from numba import int64, uint64

from fanin_nic.native.memory import load_u8, store_u8
from fanin_sim.jit import internal
from fanin_sim.kernel.event_queue import GOLDEN, mix


@internal
def byte_of(pattern, index):
    word = mix(uint64(pattern) * GOLDEN + uint64(index >> 3))
    return int64(word >> uint64(8 * (index & 7))) & 255


@internal
def fill(address, pattern, length):
    """Write the first `length` bytes of a pattern to an address."""
    for index in range(length):
        store_u8(address + uint64(index), byte_of(pattern, index))


@internal
def is_pattern(address, pattern, length):
    """Whether the bytes at an address are the first ones of a pattern."""
    same = True
    for index in range(length):
        same &= int64(load_u8(address + uint64(index))) == byte_of(pattern, index)
    return same
