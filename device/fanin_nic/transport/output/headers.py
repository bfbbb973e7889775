"""The headers of a packet between wire and PACKET record: BTH, then those of its opcode."""

import numpy as np
from numba import int64

from fanin_nic.native.codec import decoder, encoder
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of
from fanin_nic.transport.records.accessors import U64
from fanin_nic.transport.records.packets import EXTENDED_HEADERS, PACKET
from fanin_wire.fields import BTH, Header
from fanin_wire.rocev2 import OPCODES

UNKNOWN = 255
_BITS = {header.name: 1 << number for number, header in enumerate(EXTENDED_HEADERS)}


def _by_opcode(value, unknown: int = UNKNOWN) -> np.ndarray:
    """Table by opcode of `value` of its row."""
    table = np.full(256, unknown, np.uint8)
    for code, row in OPCODES.items():
        table[code] = value(row)
    return table


SERVICES = _by_opcode(lambda row: row.transport)  # UNKNOWN: no such opcode
OPERATIONS = _by_opcode(lambda row: row.operation)
PARTS = _by_opcode(lambda row: row.part)
HEADER_BITS = _by_opcode(lambda row: sum(_BITS[header.name] for header in row.headers), 0)
HEADER_SIZES = _by_opcode(lambda row: BTH.size + sum(header.size for header in row.headers), 0)

BTH_SIZE = BTH.size
HAS_DETH, HAS_RETH, HAS_ATOMICETH, HAS_AETH, HAS_ATOMICACKETH, HAS_IMMDT, HAS_IETH = _BITS.values()
_decode_bth, _encode_bth = decoder(BTH, PACKET), encoder(BTH, PACKET)


def _codec(header: Header):
    return U64(header.size), decoder(header, PACKET), encoder(header, PACKET)


_DETH_SIZE, _decode_deth, _encode_deth = _codec(EXTENDED_HEADERS[0])
_RETH_SIZE, _decode_reth, _encode_reth = _codec(EXTENDED_HEADERS[1])
_ATOMICETH_SIZE, _decode_atomiceth, _encode_atomiceth = _codec(EXTENDED_HEADERS[2])
_AETH_SIZE, _decode_aeth, _encode_aeth = _codec(EXTENDED_HEADERS[3])
_ATOMICACKETH_SIZE, _decode_atomicacketh, _encode_atomicacketh = _codec(EXTENDED_HEADERS[4])
_IMMDT_SIZE, _decode_immdt, _encode_immdt = _codec(EXTENDED_HEADERS[5])
_IETH_SIZE, _decode_ieth, _encode_ieth = _codec(EXTENDED_HEADERS[6])


@internal
def header_size(opcode):
    """Bytes of BTH and extended headers."""
    return int64(HEADER_SIZES[opcode])


@internal
def decode_bth(place, packet):
    _decode_bth(U64(place), address_of(packet))


@internal
def decode_extended(place, packet):
    """Read the headers behind the BTH at `place`, which must all be complete."""
    bits, at, record = int64(HEADER_BITS[packet.opcode]), U64(place) + U64(BTH_SIZE), address_of(packet)
    if bits & HAS_DETH:
        _decode_deth(at, record)
        at += _DETH_SIZE
    if bits & HAS_RETH:
        _decode_reth(at, record)
        at += _RETH_SIZE
    if bits & HAS_ATOMICETH:
        _decode_atomiceth(at, record)
        at += _ATOMICETH_SIZE
    if bits & HAS_AETH:
        _decode_aeth(at, record)
        at += _AETH_SIZE
    if bits & HAS_ATOMICACKETH:
        _decode_atomicacketh(at, record)
        at += _ATOMICACKETH_SIZE
    if bits & HAS_IMMDT:
        _decode_immdt(at, record)
        at += _IMMDT_SIZE
    if bits & HAS_IETH:
        _decode_ieth(at, record)


@internal
def encode(packet, place):
    bits, at, record = int64(HEADER_BITS[packet.opcode]), U64(place) + U64(BTH_SIZE), address_of(packet)
    _encode_bth(record, U64(place))
    if bits & HAS_DETH:
        _encode_deth(record, at)
        at += _DETH_SIZE
    if bits & HAS_RETH:
        _encode_reth(record, at)
        at += _RETH_SIZE
    if bits & HAS_ATOMICETH:
        _encode_atomiceth(record, at)
        at += _ATOMICETH_SIZE
    if bits & HAS_AETH:
        _encode_aeth(record, at)
        at += _AETH_SIZE
    if bits & HAS_ATOMICACKETH:
        _encode_atomicacketh(record, at)
        at += _ATOMICACKETH_SIZE
    if bits & HAS_IMMDT:
        _encode_immdt(record, at)
        at += _IMMDT_SIZE
    if bits & HAS_IETH:
        _encode_ieth(record, at)
