"""Memory of the model device's clients: registered regions, and that of their processes."""

import os
from dataclasses import dataclass

import numpy as np

from fanin_nic.hostif.mapping import record_view
from fanin_nic.hostif.ports import Refused
from fanin_wire import abi
from fanin_wire.abi import Access, Status


@dataclass
class Region:
    """A client's bytes from `start`, mapped at `device_address`."""

    start: int
    length: int
    access: int
    device_address: int


class Memory:
    """Reads and writes by (client, lkey, address); Refused without the right."""

    def __init__(self) -> None:
        self.processes: dict[int, int] = {}
        self.regions: dict[tuple[int, int], Region] = {}

    def read(self, client: int, lkey: int, address: int, length: int) -> np.ndarray:
        if lkey == abi.LKEY_PROCESS:
            return self._move_process(client, address, np.empty(length, "u1"), os.preadv)
        return self._view(client, lkey, address, length, Access.READ).copy()

    def write(self, client: int, lkey: int, address: int, data: np.ndarray) -> None:
        if lkey == abi.LKEY_PROCESS:
            self._move_process(client, address, data, os.pwritev)
        else:
            self._view(client, lkey, address, len(data), Access.WRITE)[:] = data

    def _view(self, client: int, lkey: int, address: int, length: int, right: int) -> np.ndarray:
        region = self.regions.get((client, lkey))
        inside = region and region.start <= address and address + length <= region.start + region.length
        if region is None or not inside or not region.access & right:
            raise Refused(Status.LOCAL_PROTECTION_ERROR)
        return record_view(region.device_address + address - region.start, np.dtype(("u1", (length,)))).reshape(-1)

    def _move_process(self, client: int, address: int, data: np.ndarray, move: object) -> np.ndarray:
        try:
            moved = move(self.processes[client], [data], address)  # type: ignore[operator]
        except OSError:
            moved = -1
        if moved != len(data):
            raise Refused(Status.LOCAL_PROTECTION_ERROR)
        return data
