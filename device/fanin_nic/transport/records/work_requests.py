"""Work requests as a program posts them: to send, and to receive.

The transport copies a request into its tables, and keeps it until it is complete.
"""

from __future__ import annotations

import numpy as np

from fanin_wire.verbs import MAX_INLINE_DATA, MAX_SGE

# A piece of memory, as struct ibv_sge.
SGE = np.dtype([("address", "u8"), ("length", "u4"), ("lkey", "u4")], align=True)

SEND_WQE = np.dtype(
    [
        ("wr_id", "u8"),
        ("opcode", "u1"),  # RequestOpcode
        ("flags", "u1"),  # SendFlag
        ("sge_count", "u1"),
        ("reserved", "u1"),
        ("immediate", "u4"),  # SEND_WITH_INV: the remote key; else immediate data, host order
        ("remote_address", "u8"),  # WRITE, READ, atomics
        ("rkey", "u4"),
        ("inline_length", "u4"),  # INLINE: bytes of data in the place of the pieces
        ("compare_add", "u8"),  # atomics: what is compared or added
        ("swap", "u8"),
        ("destination", "u4"),  # UD: IPv4 address, host order
        ("remote_qpn", "u4"),  # UD
        ("remote_qkey", "u4"),  # UD; its highest bit stands for the key of the queue pair itself (section 10.2)
        ("reserved4", "u4"),
        ("sge", SGE, (MAX_SGE,)),
    ],
    align=True,
)

RECEIVE_WQE = np.dtype([("wr_id", "u8"), ("sge_count", "u4"), ("reserved", "u4"), ("sge", SGE, (MAX_SGE,))], align=True)

assert SEND_WQE["sge"].itemsize >= MAX_INLINE_DATA
