"""The IP identification of a packet of ordinary traffic: the ICRC covers it, and no UDP receiver sees it.

The kernel numbers the segments of a super-packet in it; other devices have their own ways. The ICRC is affine: two
identifications change it by their difference, whatever the packet holds. So the right and the computed ICRC show with
which identification the packet would be right, if any. Their difference is that of the identifications, 16 bits as a
polynomial, times x^32 for the register and x^8 for each byte behind them; divided by both it must be a polynomial of 16
bits again. Record 0057: what this costs in certainty.
"""

import numpy as np
from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.port.crc import crc_multiply
from fanin_nic.port.polynomial import DEGREE, inverse_power
from fanin_wire.fields import IPV4_UDP_SIZE

BEHIND = IPV4_UDP_SIZE - 6  # bytes of headers behind the identification
NONE = -1
OFF_REGISTER = np.uint32(inverse_power(DEGREE))
# The factor that removes 2^k bytes, for each bit k of a length
OFF_BYTES = np.array([inverse_power(8 << bit) for bit in range(17)], np.uint32)


@compiled
def other_identification(difference, identification, length):
    """The identification that makes a packet right whose ICRC differs by `difference` from the one computed with
    `identification`; NONE if there is none. length: BTH to padding."""
    changed, left = crc_multiply(uint32(difference), OFF_REGISTER), uint64(BEHIND) + uint64(length)
    for bit in range(len(OFF_BYTES)):
        if left >> uint64(bit) & uint64(1):
            changed = crc_multiply(changed, OFF_BYTES[bit])
    if changed & uint32(0xFFFF):
        return int64(NONE)
    high, low = int64(changed) >> 16 & 0xFF, int64(changed) >> 24 & 0xFF
    return int64(identification) ^ (high << 8 | low)
