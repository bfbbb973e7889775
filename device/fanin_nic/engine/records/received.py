"""The table of received packets, with right ICRCs, from the port to the engine."""

import numpy as np

from fanin_nic.native.memory import record_at

RECEIVED = np.dtype(
    [
        ("source", "u4"),  # IPv4 address of the sender
        ("length", "u4"),  # bytes from the BTH to before the ICRC, padding included
        ("address", "u8"),  # of the BTH
    ],
    align=True,
)
RECEIVED_SIZE = np.uint64(RECEIVED.itemsize)
received_at = record_at(RECEIVED)
