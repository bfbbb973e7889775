"""Headers between wire and record, generated from the field tables of fanin_wire.

`decode_header(packet, header)` reads BTH and CETH at address `packet` into the record `fields.HEADER` at address
`header`; `encode_header(header, packet)` writes them. Neither checks that the bytes exist.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fanin_wire import fields


class _Row(NamedTuple):
    """A field: its offset and width on the wire in bits, and its member of the record."""

    offset: int
    bits: int
    member: str


def _members() -> list[_Row]:
    rows, names = [], iter(fields.HEADER.names or ())
    for base, header in ((0, fields.BTH), (fields.BTH.size * 8, fields.CETH)):
        rows += [_Row(base + field.offset, field.bits, next(names)) for field in header.fields]
    return rows


def _words(rows: Sequence[_Row]) -> dict[tuple[int, int], list]:
    """The fields grouped by the wire word (bit offset, 32 or 64 bits) that holds them: each word moves once."""
    words: dict[tuple[int, int], list] = {}
    for offset, bits, member in rows:
        start = offset % 32 if bits <= 32 else 0
        words.setdefault((offset - start, max(bits, 32)), []).append((start, bits, member))
    return words


def _member_pointer(builder, base, record, name):
    dtype, offset = record.fields[name][:2]
    width = ir.IntType(dtype.itemsize * 8)
    return builder.inttoptr(builder.add(base, ir.Constant(ir.IntType(64), offset)), width.as_pointer()), width


def _word_pointer(builder, base, offset, width):
    address = builder.add(base, ir.Constant(ir.IntType(64), offset // 8))
    return builder.inttoptr(address, ir.IntType(width).as_pointer())


def _swapped(builder, value, width):
    return builder.bswap(value) if width > 8 else value


def _resize(builder, value, width):
    have = value.type.width
    if have == width.width:
        return value
    return builder.zext(value, width) if have < width.width else builder.trunc(value, width)


def mask_without(names) -> bytes:
    """BTH and CETH, all bits set but those of the fields `names`, which must be whole bytes."""
    mask = bytearray(b"\xff" * fields.TRANSPORT_SIZE)
    for offset, bits, member in _members():
        if member in names:
            assert offset % 8 == bits % 8 == 0, f"{member} is not whole bytes"
            mask[offset // 8 : (offset + bits) // 8] = bytes(bits // 8)
    return bytes(mask)


def equal_under(mask: bytes):
    """Intrinsic `(packet, other) -> bool`: BTH and CETH at two addresses are equal in the bits of a mask."""
    vector, tail = ir.VectorType(ir.IntType(64), 8), ir.IntType(32)
    vector_mask = ir.Constant(vector, [int.from_bytes(mask[i : i + 8], "little") for i in range(0, 64, 8)])
    tail_mask = ir.Constant(tail, int.from_bytes(mask[64:], "little"))

    @intrinsic
    def equal(typing_context, packet, other):
        def generate(context, builder, signature, arguments):
            def load(base, offset, kind):
                address = builder.add(base, ir.Constant(ir.IntType(64), offset))
                return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)

            def difference(offset, kind, wanted):
                one, two = (load(base, offset, kind) for base in arguments)
                return builder.and_(builder.xor(one, two), wanted)

            most = builder.icmp_unsigned("!=", difference(0, vector, vector_mask), ir.Constant(vector, None))
            words = builder.bitcast(most, ir.IntType(8))
            rest = difference(64, tail, tail_mask)
            unlike = builder.or_(builder.zext(words, tail), rest)
            return builder.icmp_unsigned("==", unlike, ir.Constant(tail, 0))

        return types.boolean(types.uint64, types.uint64), generate

    return equal


def _decoder(rows: Sequence[_Row], record: np.dtype):
    @intrinsic
    def decode(typing_context, packet, header):
        def generate(context, builder, signature, arguments):
            for (offset, width), members in _words(rows).items():
                word = builder.load(_word_pointer(builder, arguments[0], offset, width), align=1)
                word = _swapped(builder, word, width)
                for start, bits, name in members:
                    value = builder.lshr(word, ir.Constant(word.type, width - start - bits))
                    if bits < width:
                        value = builder.and_(value, ir.Constant(word.type, (1 << bits) - 1))
                    pointer, size = _member_pointer(builder, arguments[1], record, name)
                    builder.store(_resize(builder, value, size), pointer)
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), generate

    return decode


def _encoder(rows: Sequence[_Row], record: np.dtype):
    @intrinsic
    def encode(typing_context, header, packet):
        def generate(context, builder, signature, arguments):
            for (offset, width), members in _words(rows).items():
                word_type = ir.IntType(width)
                word = ir.Constant(word_type, 0)
                for start, bits, name in members:
                    pointer, _ = _member_pointer(builder, arguments[0], record, name)
                    value = _resize(builder, builder.load(pointer), word_type)
                    if bits < width:
                        value = builder.and_(value, ir.Constant(word_type, (1 << bits) - 1))
                    word = builder.or_(word, builder.shl(value, ir.Constant(word_type, width - start - bits)))
                place = _word_pointer(builder, arguments[1], offset, width)
                builder.store(_swapped(builder, word, width), place, align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), generate

    return encode


decode_header = _decoder(_members(), fields.HEADER)
encode_header = _encoder(_members(), fields.HEADER)


def decoder(header: fields.Header, record: np.dtype):
    """Intrinsic `(packet, record)`: a header into the members of a record that have the names of its fields."""
    return _decoder([_Row(field.offset, field.bits, field.name) for field in header.fields], record)


def encoder(header: fields.Header, record: np.dtype):
    """Intrinsic `(record, packet)`: the opposite of `decoder`."""
    return _encoder([_Row(field.offset, field.bits, field.name) for field in header.fields], record)
