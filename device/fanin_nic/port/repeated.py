"""A payload that several packets carry one after the other, as a switch sends a result to each of its children.

Its CRC is computed for the first. The others' differ from it by what their headers do to the register, carried over
the payload: two multiplications, however long it is. That holds within one batch, in which nobody changes a payload.
"""

from __future__ import annotations

from numba import uint32, uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.port.crc import crc_multiply, crc_power, crc_update


@compiled
def forget_payload(port):
    """A new batch: what was sent before may have changed."""
    port.crc_payload = 0


@compiled
def payload_state(port, state, payload, length):
    """CRC register behind a payload, from that behind its headers."""
    if port.crc_payload == payload and port.crc_length == length:
        if port.crc_power_length != length:
            port.crc_power_length = length
            port.crc_power = crc_power(uint64(length))
        return uint32(port.crc_behind ^ crc_multiply(uint32(state ^ port.crc_before), port.crc_power))
    port.crc_payload, port.crc_length = payload, length
    port.crc_before = state
    port.crc_behind = crc_update(uint32(state), uint64(payload), uint64(length))
    return uint32(port.crc_behind)
