"""The compiled codec of the device against the golden bytes, and against scapy over arbitrary values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin_nic.native.codec import decode_header, encode_header
from fanin_nic.native.compiled import compiled
from fanin_wire.fields import BTH, CETH, HEADER, TRANSPORT_SIZE
from fanin_wire.golden import Vector, vectors
from fanin_wire.layers import BTH as BTHLayer
from fanin_wire.layers import CETH as CETHLayer

OFFLOAD = [golden for golden in vectors() if "CETH" in golden.headers]
EVERY_OFFLOAD_VECTOR = pytest.mark.parametrize("golden", OFFLOAD, ids=lambda golden: golden.name)

_FIELDS = [(part.name, field) for part in (BTH, CETH) for field in part.fields]
# (member of the record, header, field)
MEMBERS = [(member, *row) for member, row in zip(HEADER.names or (), _FIELDS, strict=True)]


@compiled
def _decode(packet, header):
    decode_header(packet, header)


@compiled
def _encode(header, packet):
    encode_header(header, packet)


def decode(packet: bytes) -> np.void:
    source = np.frombuffer(packet, np.uint8)
    record = np.frombuffer(bytearray(b"\xa5" * HEADER.itemsize), HEADER)  # a member left out must be seen
    _decode(np.uint64(source.ctypes.data), np.uint64(record.ctypes.data))
    return record[0]


def encode(values: dict[str, int]) -> bytes:
    """BTH and CETH of a record with these members, the others 0."""
    record, packet = np.zeros(1, HEADER), np.full(TRANSPORT_SIZE, 0xA5, np.uint8)
    for name, value in values.items():
        record[name] = value
    _encode(np.uint64(record.ctypes.data), np.uint64(packet.ctypes.data))
    return packet.tobytes()


def members(headers: dict[str, dict]) -> dict[str, int]:
    return {member: headers[header].get(field.name, 0) for member, header, field in MEMBERS}


@EVERY_OFFLOAD_VECTOR
def test_decodes_golden_bytes(golden: Vector):
    record = decode(golden.datagram)
    assert {name: int(record[name]) for name in HEADER.names or ()} == members(golden.headers)


@EVERY_OFFLOAD_VECTOR
def test_encodes_golden_bytes(golden: Vector):
    assert encode(members(golden.headers)) == golden.datagram[:TRANSPORT_SIZE]


VALUES = st.fixed_dictionaries({member: st.integers(0, 2**field.bits - 1) for member, _, field in MEMBERS})


@given(VALUES)
def test_round_trip(values):
    record = decode(encode(values))
    assert {name: int(record[name]) for name in values} == values


@settings(max_examples=50)
@given(VALUES)
def test_scapy_reads_what_the_codec_writes(values):
    packet = encode(values)
    layers = {"BTH": BTHLayer(packet[: BTH.size] + bytes(4)), "CETH": CETHLayer(packet[BTH.size :])}
    assert {member: layers[header].getfieldval(field.name) for member, header, field in MEMBERS} == values


@settings(max_examples=50)
@given(VALUES)
def test_codec_reads_what_scapy_writes(values):
    layers = {"BTH": BTHLayer(icrc=0), "CETH": CETHLayer()}
    for member, header, field in MEMBERS:
        layers[header].setfieldval(field.name, values[member])
    packet = bytes(layers["BTH"])[: BTH.size] + bytes(layers["CETH"])
    record = decode(packet)
    assert {name: int(record[name]) for name in values} == values
