"""SGE: a piece of memory, as work requests name it."""

from typing import NamedTuple

from fanin.verbs.resource import columns


class SGE(NamedTuple):
    """`length` bytes at virtual address `addr` in the region `lkey` (LKEY_PROCESS: ordinary memory)."""

    addr: int
    length: int
    lkey: int

    def __str__(self) -> str:
        return columns(addr=f"{self.addr:#x}", length=self.length, lkey=f"{self.lkey:#x}")
