"""Any flipped bit of a golden packet is noticed: by the ICRC, as the tester checks it of each packet that comes."""

from __future__ import annotations

import pytest

from fanin_conform import datagram
from fanin_wire.fields import BTH, FIRST_OFFLOAD_OPCODE
from fanin_wire.golden import Vector, vectors

LONGEST = 400  # bytes; longer packets have nothing new
MARKS = BTH.byte_offset("fecn")  # the one byte that the ICRC does not cover
PACKETS = [
    golden
    for golden in vectors()
    if golden.value("BTH", "opcode") >= FIRST_OFFLOAD_OPCODE and len(golden.packet) <= LONGEST
]


@pytest.mark.parametrize("golden", PACKETS, ids=lambda golden: golden.name)
def test_every_flipped_bit(golden: Vector) -> None:
    source, destination = golden.headers["IP"]["source"], golden.headers["IP"]["destination"]
    port = int.from_bytes(golden.packet[20:22])
    assert datagram.icrc_is_right(source, destination, port, golden.datagram)
    for bit in range(len(golden.datagram) * 8):
        flipped = bytearray(golden.datagram)
        flipped[bit // 8] ^= 1 << bit % 8
        if bit // 8 != MARKS:
            assert not datagram.icrc_is_right(source, destination, port, bytes(flipped)), bit
