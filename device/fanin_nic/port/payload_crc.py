"""The CRC of a payload that several packets carry in turn, as a switch sends a result to each child.

It is computed for the first packet. The others differ by what their headers do to the register, carried over the
payload in two multiplications, whatever its length. That holds within a batch, while the payload does not change. (If
it does, the receiver drops the packet and asks for it again.)
"""

from numba import uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.port.crc import crc_behind_headers, crc_multiply, crc_power


@compiled
def forget_payload(port):
    """Begin a new batch: earlier payloads may have changed."""
    port.crc_payload = 0


@compiled
def behind_payload(port, low, high, payload, length):
    """CRC register behind a payload, from that behind its headers."""
    if length == 0:
        return crc_behind_headers(low, high, payload, length)
    if port.crc_payload != payload or port.crc_length != length:
        port.crc_payload, port.crc_length = payload, length
        port.crc_low, port.crc_high = low, high
        port.crc_behind = crc_behind_headers(low, high, payload, length)
        return uint32(port.crc_behind)
    if port.crc_power_length != length:
        port.crc_power_length = length
        port.crc_power = crc_power(length)
    difference = crc_behind_headers(low ^ port.crc_low, high ^ port.crc_high, payload, uint64(0))
    return uint32(port.crc_behind ^ crc_multiply(difference, port.crc_power))
