"""The memory of a simulated rank, as registered with its device."""

import numpy as np

from fanin_sim.fabric.device import Device
from fanin_wire import abi


class ClientMemory:
    """The registered memory of a client. It holds the arrays, because the device knows them by address."""

    def __init__(self, device: Device, client: int) -> None:
        self.device, self.client = device, client
        self._kept: dict[int, np.ndarray] = {}
        self._lkeys: dict[int, int] = {}

    def lkey(self, array: np.ndarray, process_memory: bool = False) -> int:
        """Returns the lkey of an array, whose base is registered when it is new.

        Args:
            process_memory: do not register; the device accesses the memory of the client's process.
        """
        whole = array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        place = whole.ctypes.data
        self._kept[place] = whole
        if process_memory:
            self.device.allow(whole)
            return abi.LKEY_PROCESS
        if place not in self._lkeys:
            self._lkeys[place] = len(self._lkeys) + 1
            self.device.register(self.client, whole, self._lkeys[place])
        return self._lkeys[place]
