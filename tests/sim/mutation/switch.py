"""The selected mutant of this package: a number at a fixed address, where machine code from any cache finds it.

`build` copies this file into the package as `fanin_nic.native.mutant`. At import the number is 0: none.
"""

import ctypes
import mmap

from numba import int64, uint32

from fanin_nic.native.compiled import internal_for
from fanin_nic.native.memory import load_u32

CELL = 0x100000000000  # Linux puts nothing there: programs lie higher, or in the lowest 4 GiB
MAP_FIXED_NOREPLACE = 0x100000

_mmap = ctypes.CDLL(None, use_errno=True).mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def _claim() -> None:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
    got = _mmap(CELL, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if got != CELL:
        raise OSError(ctypes.get_errno(), f"address {CELL:#x} is in use")


_claim()


def choose(number: int) -> None:
    """Select one mutant for this process; 0: none."""
    ctypes.c_uint32.from_address(CELL).value = number


@internal_for(int64, returns=uint32)
def mutant_is(number):
    return load_u32(CELL) == number
