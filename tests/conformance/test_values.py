"""Codes of packets have names, and payloads are shown as their elements."""

import numpy as np
import pytest

from fanin_conform import values
from fanin_conform.datagram import build, dissect
from fanin_wire import layers
from fanin_wire.abi import ContributorClass, DType, Op, Status
from fanin_wire.fields import CLASS_SHIFT, Flag, Opcode

ALL = ContributorClass.ALL << CLASS_SHIFT


def shown(code: Opcode, body: bytes = b"", **ceth: int) -> str:
    packet = layers.offload(code, length=len(body), **ceth)
    found = dissect(build(packet / body if body else packet, "192.0.2.1", "192.0.2.2"))
    assert found
    return str(found)


def test_codes_have_names() -> None:
    assert shown(Opcode.NAK, status=int(Status.NOT_SUPPORTED)) == "NAK status=NOT_SUPPORTED"
    assert shown(Opcode.NAK, status=99) == "NAK status=99"
    text = shown(Opcode.CONTRIBUTION, op=int(Op.SUM), dtype=99, flags=ALL | Flag.HAS_DATA | Flag.AHEAD | 0x80)
    assert text == "CONTRIBUTION op=SUM dtype=99 flags=ALL|HAS_DATA|AHEAD|0x80"


def test_bodies_have_fields() -> None:
    hop = layers.HOP(address="::ffff:192.0.2.7", bit=3, mask=9)
    text = shown(Opcode.CONFIG, bytes(layers.CONFIG(slots=8, chunk=256, route=1, flags=6, hop=[hop])))
    for part in ("slots=8", "chunk=256", "route=TREE", "address=192.0.2.7", "bit=3", "mask=0x9"):
        assert f" {part}" in text
    assert shown(Opcode.CONFIG_ACK, b"\0\0\0") == "CONFIG_ACK length=3 000000"


@pytest.mark.parametrize(
    ("dtype", "flags", "payload", "text"),
    [
        (DType.F32, 0, np.array([1.5, -0.0, np.nan], "<f4").tobytes(), "[1.5, -0.0, nan] 3 f32"),
        (DType.BF16, 0, bytes.fromhex("c03f"), "[1.5] 1 bf16"),
        (DType.BF16, Flag.WIDE, np.array([1.5], "<f4").tobytes(), "[1.5] 1 f32"),
        (DType.I16_I32, 0, bytes.fromhex("0500000007000000"), "[(5, 7)] 1 i16_i32"),
        (DType.U8, 0, bytes(range(9)), "[0, 1, 2, 3, 4, 5, 6, 7, ...] 9 u8"),
        (DType.F64, 0, b"seven b", "736576656e2062"),  # a partial element
        (DType.NONE, 0, bytes(33), f"{'00' * 32}... 33 bytes"),
    ],
)
def test_payloads_are_elements(dtype: DType, flags: int, payload: bytes, text: str) -> None:
    assert shown(Opcode.RESULT, payload, dtype=int(dtype), flags=ALL | flags).endswith(f" {text}")


@pytest.mark.parametrize(
    ("dtype", "seen", "expected", "text"),
    [
        ("f32", [1, 2, 3, 9], [1, 2, 4, 5], "element 2 is 3.0 (0x40400000), not 4.0 (0x40800000); 2 of 4 differ"),
        ("f32", [0.0], [-0.0], "element 0 is 0.0 (0x00000000), not -0.0 (0x80000000)"),
        ("f32", [1], [1, 2], "has 4 bytes, not 8"),
        ("", [1], [2], "byte 2 is 0x80, not 0x00"),
    ],
)
def test_a_difference_is_named_by_its_place_and_bits(
    dtype: str, seen: list[float], expected: list[float], text: str
) -> None:
    one, other = (np.array(each, "<f4").tobytes() for each in (seen, expected))
    assert values.difference(one, other, dtype) == text
