"""What one rank sends another: a header, and the data of a short message."""

import struct
from enum import IntEnum
from typing import NamedTuple

import numpy as np

HEADER = struct.Struct("<IIqQQQ")  # kind, remote key, tag, bytes, address, number of the sender's message
EAGER = 65536 - HEADER.size  # bytes of data with which a frame fits into one slot
MAX_FRAME = HEADER.size + EAGER


class Kind(IntEnum):
    """Of frames. Only sockets use WANT and BODY: a NIC fetches by READ."""

    DATA = 1
    OFFER = 2
    FETCHED = 3
    WANT = 4
    BODY = 5


class Frame(NamedTuple):
    """A frame from a rank. data: of DATA, possibly in a buffer that the next frame overwrites."""

    source: int
    kind: int
    key: int
    tag: int
    length: int
    address: int
    number: int
    data: np.ndarray | None = None
