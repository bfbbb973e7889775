"""The IP identification of a packet of ordinary traffic, which its ICRC covers and no UDP receiver sees.

The kernel numbers the segments of a super-packet in it. The ICRC is affine: two identifications change it by what they
differ in, whatever else the packet holds. So from the right and the computed ICRC follows whether the packet would be
right with another number.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.port.crc import crc_multiply, crc_power
from fanin_nic.port.polynomial import byte_tables
from fanin_wire.fields import IPV4_UDP_SIZE, SUPER_PACKET_SEGMENTS

BEHIND = IPV4_UDP_SIZE - 6  # bytes of the headers behind the identification
BITS = (SUPER_PACKET_SEGMENTS - 1).bit_length()
# What each bit of the identification does to the CRC register right behind it.
EFFECTS = np.array([byte_tables(1)[0, 1 << bit] for bit in range(BITS)], np.uint32)


@compiled
def is_other_identification(difference, place, length):
    """Whether a packet whose ICRC differs by `difference` from that with the identification `place` has one from 0 to
    SUPER_PACKET_SEGMENTS - 1. length: from its BTH to the end of the padding."""
    power = crc_power(uint64(BEHIND) + uint64(length))
    for other in range(SUPER_PACKET_SEGMENTS):
        changed, effect = int64(other) ^ int64(place), uint32(0)
        if changed >> BITS:
            continue
        for bit in range(BITS):
            if changed >> bit & 1:
                effect ^= EFFECTS[bit]
        if crc_multiply(effect, power) == difference:
            return True
    return False
