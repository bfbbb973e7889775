"""The field tables against the oracle's own layouts."""

import struct

import pytest

from fanin_wire import fields
from fanin_wire.tables import HEADERS

from .oracle import LAYOUTS, pack_header

SIZES = {
    "BTH": 12,
    "CETH": 56,
    "CONFIG": 40,
    "HOP": 32,
    "CONFIG_ACK": 8,
    "WAIT": 8,
    "RETH": 16,
    "DETH": 8,
    "ImmDt": 4,
    "AtomicETH": 28,
    "AETH": 4,
    "AtomicAckETH": 8,
    "IETH": 4,
}


@pytest.mark.parametrize("name", SIZES)
def test_size(name):
    assert HEADERS[name].size == SIZES[name]


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_of_the_oracle_has_the_same_size(name):
    assert struct.calcsize(LAYOUTS[name][0]) == HEADERS[name].size


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in LAYOUTS for field in LAYOUTS[name][1].split()])
def test_field_lies_where_the_oracle_packs_it(name, field):
    row = HEADERS[name].field(field)
    all_ones = (1 << row.bits) - 1
    packed = int.from_bytes(pack_header(name, {field: all_ones}))
    assert packed == all_ones << (HEADERS[name].size * 8 - row.offset - row.bits)


def test_opcodes_lie_in_the_manufacturer_range():
    assert [int(code) for code in fields.Opcode] == list(range(fields.FIRST_OFFLOAD_OPCODE, 0xCF))


def test_class_lies_beside_the_flags():
    assert sum(fields.Flag) & fields.CLASS_MASK << fields.CLASS_SHIFT == 0


def test_header_length_must_be_a_multiple_of_four():
    with pytest.raises(ValueError, match="24 bits is not a multiple of 32"):
        fields.header("odd", ("a", 8), ("b", 16))


@pytest.mark.parametrize(("chunk", "segments"), [(256, 64), (1024, 59), (4096, 15), (8192, 7)])
def test_segments_of_a_super_packet(chunk, segments):
    assert fields.super_packet_segments(chunk) == segments
