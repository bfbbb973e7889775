"""Almost valid packets: templates with a few changed fields or bytes, in compiled code.

Fields come from the tables of `fanin_wire.fields`, so a new field needs no change here. Most packets keep a valid
version, length and job, since the first checks drop the others.
"""

import numpy as np
from numba import uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import copy, load_u8, load_u64, store_be16, store_be32, store_u8, store_u64
from fanin_wire import fields
from fanin_wire.fields import BTH, CETH, TRANSPORT_SIZE
from fanin_wire.golden import vectors

ROOM = 512  # bytes of a packet here
BODIES = (fields.CONFIG_BODY, fields.HOP_BODY, fields.CONFIG_ACK_BODY, fields.WAIT_BODY)
VERSION, LENGTH = (BTH.size + CETH.byte_offset(name) for name in ("version", "length"))
JID, KEY, SOURCE = (BTH.size + CETH.byte_offset(name) for name in ("jid", "key", "source"))
POSITION, SEG = (BTH.size + CETH.byte_offset(name) for name in ("position", "seg"))


def field_table() -> np.ndarray:
    """(offset in bits from the BTH, width in bits) of every field that a packet can have, uint64."""
    rows = [(field.offset, field.bits) for field in BTH.fields]
    rows += [(8 * BTH.size + field.offset, field.bits) for field in CETH.fields]
    rows += [(8 * TRANSPORT_SIZE + field.offset, field.bits) for body in BODIES for field in body.fields]
    hop = 8 * (TRANSPORT_SIZE + fields.CONFIG_BODY.size)
    return np.array(rows + [(hop + field.offset, field.bits) for field in fields.HOP_BODY.fields], np.uint64)


def template_table() -> tuple[np.ndarray, np.ndarray]:
    """The golden vectors without IP, UDP and ICRC, uint8 of shape (vectors, ROOM), and their lengths."""
    packets = [vector.datagram[: -fields.ICRC_SIZE] for vector in vectors()]
    packets = [packet for packet in packets if len(packet) <= ROOM]
    table = np.zeros((len(packets), ROOM), np.uint8)
    for row, packet in zip(table, packets, strict=True):
        row[: len(packet)] = np.frombuffer(packet, np.uint8)
    return table, np.array([len(packet) for packet in packets], np.uint64)


@compiled
def draw(random):
    """64 bits (xorshift64*). random: address of the state."""
    state = load_u64(random)
    state ^= state >> uint64(12)
    state ^= state << uint64(25)
    state ^= state >> uint64(27)
    store_u64(random, state)
    return state * uint64(0x2545F4914F6CDD1D)


@compiled
def below(random, bound):
    return (draw(random) >> uint64(11)) % uint64(bound)


@compiled
def boundary_value(random, bits):
    """For a field of `bits` bits: a boundary value, or any."""
    kind = below(random, 6)
    if kind == 0:
        return uint64(0)
    if kind == 1:
        return (~uint64(0) >> (uint64(64) - uint64(min(uint64(64), bits)))) - below(random, 2)
    if kind == 2:
        return uint64(1) << below(random, min(uint64(64), bits))
    if kind == 3:
        return below(random, 70)
    return draw(random)


@compiled
def store_field(packet, offset, bits, value):
    """Write the low bits of a value, most significant first, to a field of any width and place."""
    for index in range(min(uint64(64), bits)):
        place = offset + bits - uint64(1) - uint64(index)
        byte, shift = packet + place // uint64(8), uint64(7) - place % uint64(8)
        old = load_u8(byte) & ~(uint64(1) << shift)
        store_u8(byte, old | ((value >> uint64(index)) & uint64(1)) << shift)


@compiled
def mutate(packet, templates, lengths, count, table, rows, random):
    """Write a mutation of one of `count` templates to the address `packet`; its length. table: address of `rows` pairs
    (offset, width) of fields; lengths: address of the templates' lengths."""
    number = below(random, count)
    length = load_u64(lengths + number * uint64(8))
    copy(packet, templates + number * uint64(ROOM), uint64(ROOM))
    if below(random, 16) == 0:
        length = below(random, ROOM)
    for _ in range(below(random, 4)):
        row = table + below(random, rows) * uint64(16)
        offset, bits = load_u64(row), load_u64(row + uint64(8))
        if (offset + bits) <= uint64(8 * ROOM):
            store_field(packet, offset, bits, boundary_value(random, bits))
    if below(random, 4) == 0:
        for _ in range(below(random, 8)):
            store_u8(packet + below(random, ROOM), draw(random))
    return length


@compiled
def make_plausible(packet, length, random):
    """Most packets get a valid version and length, so that they pass the first checks."""
    if below(random, 16):
        store_u8(packet + uint64(1), load_u8(packet + uint64(1)) & 0x30)
        store_u8(packet + uint64(VERSION), fields.WIRE_VERSION)
    if length >= uint64(TRANSPORT_SIZE) and below(random, 16):
        padding = uint64(load_u8(packet + uint64(1)) >> 4) & uint64(3)
        store_be16(packet + uint64(LENGTH), max(uint64(0), length - uint64(TRANSPORT_SIZE) - padding))


@compiled
def aim(packet, jid, key, slots, random):
    """Let a packet name a job, and most packets also a child of the job and the slot of their position."""
    slots = uint64(slots)
    store_be32(packet + uint64(JID), jid)
    store_be32(packet + uint64(KEY), key)
    if below(random, 4):
        store_u8(packet + uint64(SOURCE), below(random, 3))
    if below(random, 4):
        position = below(random, uint64(3) * slots) - (slots if below(random, 3) == 0 else uint64(0))
        store_be32(packet + uint64(POSITION), position)
        store_be16(packet + uint64(SEG), position & (slots - uint64(1)))
