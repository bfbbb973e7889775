"""CRC-32 of Ethernet over memory, in the fastest way that this CPU has.

`crc_update(state: uint32, address: uint64, length: uint64) -> uint32` runs the CRC register over `length` bytes,
without inverting it before or after: begin with `START`, take `~state` at the end (`zlib.crc32` does both). `VARIANTS`
holds all implementations for this CPU.

The register is linear in its first value: begun with another state, it differs behind any `length` bytes by
`crc_multiply(difference of the states, crc_power(length))`.
"""

import numpy as np
from llvmlite import ir
from numba import types, uint32, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from fanin_nic.native.compiled import compiled
from fanin_nic.native.cpu import cpu_features
from fanin_nic.native.libc import stack_bytes
from fanin_nic.native.memory import load_u8, load_u32, load_u64, store_u64
from fanin_nic.port.folding import (
    BARRETT_POLYNOMIAL,
    BARRETT_QUOTIENT,
    HEADER_BLOCKS,
    LANE_BYTES,
    behind,
    byte_tables,
    carryless_multiply,
    folded_headers,
    folded_with,
    multiplier,
)

START = 0xFFFF_FFFF
ARM_CRC = frozenset(("neon", "crc"))  # x86 has another polynomial; "neon" means Arm
X86_CARRYLESS, ARM_CARRYLESS = frozenset(("pclmul",)), frozenset(("neon", "aes"))  # x86 has an "aes" as well
REGISTER_TYPE = ir.IntType(32)
HEADERS_SIZE = HEADER_BLOCKS * LANE_BYTES
TABLES = byte_tables(16)
ONE_REGISTER, BYTE_REGISTER = 1 << 31, 1 << 23  # the polynomials 1 and x^8
X64 = np.uint64(multiplier(64))
X96 = np.uint64(multiplier(96))
QUOTIENT = np.uint64(BARRETT_QUOTIENT)
POLYNOMIAL = np.uint64(BARRETT_POLYNOMIAL)
fold_512 = folded_with(512, 4)
fold_256 = folded_with(256, 4)
fold_128 = folded_with(128, 4)
fold_serial = folded_with(128, 1)


# Arm's instructions


def _instruction(suffix: str, operand: ir.IntType):
    """Intrinsic `(state: uint32, data) -> uint32` of one instruction; data: a number whose lowest bits count."""

    @intrinsic
    def instruction(typing_context, state, data):
        def generate(context, builder, signature, arguments):
            register, word = arguments
            function_type = ir.FunctionType(REGISTER_TYPE, [REGISTER_TYPE, operand])
            function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.aarch64.crc32{suffix}")
            return builder.call(function, [register, word])

        return types.uint32(types.uint32, types.uint64 if operand.width == 64 else types.uint32), generate

    return instruction


crc_byte = _instruction("b", REGISTER_TYPE)
crc_word = _instruction("w", REGISTER_TYPE)
crc_double = _instruction("x", ir.IntType(64))


@compiled
def crc_instructions(state, address, length):
    """CRC32X and its like: 8 bytes at once. Only a processor with ARM_CRC may compile this: without it LLVM ends the
    process."""
    state, end = uint32(state), address + length
    while end - address >= uint64(8):
        state = crc_double(state, load_u64(address))
        address += uint64(8)
    if length & uint64(4):
        state = crc_word(state, load_u32(address))
        address += uint64(4)
    while address < end:
        state = crc_byte(state, uint32(load_u8(address)))
        address += uint64(1)
    return state


@compiled
def _instructions_128(low, high):
    """CRC register after the 16 message bytes (low, high) from a register of 0."""
    return crc_double(crc_double(uint32(0), low), high)


# Table look-ups


@compiled
def _sliced_word(word, first):
    """Contribution of 8 message bytes, `first` bytes before the end of the step."""
    state = uint32(0)
    for i in range(8):
        state ^= TABLES[first + 7 - i, (word >> uint64(8 * i)) & uint64(0xFF)]
    return state


@compiled
def crc_slicing(state, address, length):
    """Slicing-by-16 (Kounavis and Berry 2005): table look-ups only, for every CPU."""
    end = address + length
    while end - address >= 16:
        state = uint32(_sliced_word(load_u64(address) ^ state, 8) ^ _sliced_word(load_u64(address + uint64(8)), 0))
        address += uint64(16)
    while address < end:
        state = uint32((state >> 8) ^ TABLES[0, (state ^ load_u8(address)) & 0xFF])
        address += uint64(1)
    return state


# Folding


@compiled
def _reduce_64(remainder):
    """CRC register of a 64-bit remainder: Barrett reduction."""
    quotient = carryless_multiply(remainder & uint64(0xFFFF_FFFF), QUOTIENT)[0] & uint64(0xFFFF_FFFF)
    return uint32((remainder ^ carryless_multiply(quotient, POLYNOMIAL)[0]) >> uint64(32))


@compiled
def _reduce_96(low, high):
    """CRC register of a 96-bit remainder in the upper bits of (low, high)."""
    return _reduce_64(high ^ carryless_multiply(low, X64)[1])


@compiled
def _barrett_128(low, high):
    """`_instructions_128` for every CPU with carry-less products."""
    product = carryless_multiply(low, X96)
    return _reduce_96(product[0] ^ (high << uint64(32)), product[1] ^ (high >> uint64(32)))


@compiled
def _barrett_tail(state, address, length):
    """Take in the last 0 to 15 bytes."""
    if length & uint64(8):
        word = load_u64(address) ^ state
        state = _reduce_96(word << uint64(32), word >> uint64(32))
        address += uint64(8)
    if length & uint64(4):
        state = _reduce_64(uint64(load_u32(address) ^ state))
        address += uint64(4)
    for i in range(length & uint64(3)):
        byte = (state ^ load_u8(address + i)) & uint32(0xFF)
        state = uint32((state >> 8) ^ _reduce_64(uint64(byte) << uint64(24)))
    return state


_reduce_128, _tail = (
    (_instructions_128, crc_instructions) if cpu_features() >= ARM_CRC else (_barrett_128, _barrett_tail)
)


@compiled
def _clmul_128(low, high, address, length):
    """`crc_clmul_128` with 128 bits, not a register, added to the first 16 bytes, which must all exist."""
    blocks = length >> uint64(4)
    if blocks >= 4:
        low, high = fold_128(low, high, address, blocks)
    else:
        low, high = fold_serial(low, high, address, blocks)
    return _tail(_reduce_128(low, high), address + (blocks << uint64(4)), length & uint64(15))


@compiled
def _clmul_256(low, high, address, length):
    blocks = length >> uint64(4)
    if blocks < 8:
        return _clmul_128(low, high, address, length)
    low, high = fold_256(low, high, address, blocks)
    return _tail(_reduce_128(low, high), address + (blocks << uint64(4)), length & uint64(15))


@compiled
def _clmul_512(low, high, address, length):
    blocks = length >> uint64(4)
    if blocks < 16:
        return _clmul_128(low, high, address, length)
    low, high = fold_512(low, high, address, blocks)
    return _tail(_reduce_128(low, high), address + (blocks << uint64(4)), length & uint64(15))


@compiled
def crc_clmul_128(state, address, length):
    """Folding with `pclmulqdq`, or Arm's `pmull`: 16 bytes at once."""
    if length < LANE_BYTES:
        return _tail(state, address, length)
    return _clmul_128(uint64(state), uint64(0), address, length)


@compiled
def crc_clmul_256(state, address, length):
    """Folding with `vpclmulqdq` on AVX2 registers: 32 bytes an instruction."""
    if length < LANE_BYTES:
        return _tail(state, address, length)
    return _clmul_256(uint64(state), uint64(0), address, length)


@compiled
def crc_clmul_512(state, address, length):
    """Folding with `vpclmulqdq` on AVX-512 registers: 64 bytes an instruction."""
    if length < LANE_BYTES:
        return _tail(state, address, length)
    return _clmul_512(uint64(state), uint64(0), address, length)


# Products


@compiled
def multiply_clmul(one, other):
    """Product of two registers as polynomials, modulo the polynomial."""
    return _reduce_64(carryless_multiply(uint64(one), uint64(other))[0] << uint64(1))


@compiled
def multiply_bitwise(one, other):
    """`multiply_clmul` for every CPU."""
    product, factor = uint32(0), uint32(other)
    for bit in range(31, -1, -1):
        if (one >> uint32(bit)) & uint32(1):
            product ^= factor
        factor = uint32(factor >> uint32(1)) ^ (TABLES[0, 0x80] if factor & uint32(1) else uint32(0))
    return product


@compiled
def crc_power(length):
    """Factor of a register that takes in `length` bytes: x^(8 length)."""
    power, square, left = uint32(ONE_REGISTER), uint32(BYTE_REGISTER), uint64(length)
    while left:
        if left & uint64(1):
            power = crc_multiply(power, square)
        square = crc_multiply(square, square)
        left >>= uint64(1)
    return power


# The headers of a packet, and what follows


@compiled
def headers_clmul(state, words, address):
    """The register, begun with `state`, behind a tuple of uint64 and the memory that completes it to 96 bytes, as 128
    unreduced bits: (low, high)."""
    return folded_headers(uint32(state), words, uint64(address))


@compiled
def headers_serial(state, words, address):
    """`headers_clmul` for every CPU; `low` is the register."""
    memory, size = stack_bytes(HEADERS_SIZE), uint64(8 * len(words))
    for i in range(len(words)):
        store_u64(memory + uint64(8 * i), words[i])
    state = _update_serial(uint32(state), memory, size)
    return uint64(_update_serial(state, uint64(address), uint64(HEADERS_SIZE) - size)), uint64(0)


@compiled
def behind_headers_clmul(low, high, address, length):
    """CRC register `length` bytes behind such headers."""
    if length < LANE_BYTES:
        return _tail(_reduce_128(low, high), address, length)
    low, high = behind(low, high)
    return _update_behind(low, high, address, length)


@compiled
def behind_headers_serial(low, high, address, length):
    """`behind_headers_clmul` for every CPU."""
    return _update_serial(uint32(low), address, length)


# The choice for this CPU

# Fastest first: implementation and its CPU features
REQUIREMENTS = (
    (crc_clmul_512, ("vpclmulqdq", "avx512f", "pclmul")),
    (crc_clmul_256, ("vpclmulqdq", "avx2", "pclmul")),
    (crc_clmul_128, ("pclmul", "sse4.1")),
    (crc_clmul_128, ARM_CARRYLESS),
    (crc_instructions, ARM_CRC),
    (crc_slicing, ()),
)


def available_variants(features: frozenset[str]) -> dict:
    """The implementations for a CPU with these features, by name, fastest first."""
    return {function.__name__: function for function, needed in REQUIREMENTS if features.issuperset(needed)}


VARIANTS = available_variants(cpu_features())
crc_update = next(iter(VARIANTS.values()))
_update_serial = crc_instructions if cpu_features() >= ARM_CRC else crc_slicing
_update_behind = {crc_clmul_512: _clmul_512, crc_clmul_256: _clmul_256}.get(crc_update, _clmul_128)
HEADERS = {"serial": (headers_serial, behind_headers_serial)}
MULTIPLICATIONS = [multiply_bitwise]
crc_headers, crc_behind_headers, crc_multiply = headers_serial, behind_headers_serial, multiply_bitwise
if cpu_features() >= X86_CARRYLESS or cpu_features() >= ARM_CARRYLESS:
    HEADERS["clmul"] = crc_headers, crc_behind_headers = headers_clmul, behind_headers_clmul
    MULTIPLICATIONS.append(crc_multiply := multiply_clmul)
