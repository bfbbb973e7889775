"""Every CRC implementation that this CPU can run, against zlib and published values."""

import os
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config

from fanin_nic.native import cpu
from fanin_nic.port import crc, folding

LARGE_LENGTHS = (1023, 1024, 1080, 4096, 4152, 8192, 65_507, 1_000_003)
MEMORY = np.random.default_rng(20).integers(0, 256, max(LARGE_LENGTHS) + 64, np.uint8)

every_variant = pytest.mark.parametrize("variant", crc.VARIANTS.values(), ids=list(crc.VARIANTS))


def crc_of(variant, offset: int, length: int, state: int = crc.START) -> int:
    address = np.uint64(MEMORY.ctypes.data + offset)
    return int(variant(np.uint32(state), address, np.uint64(length)))


def zlib_crc(offset: int, length: int) -> int:
    """The same from zlib, which inverts the register."""
    return ~zlib.crc32(MEMORY[offset : offset + length].tobytes()) & 0xFFFF_FFFF


@every_variant
def test_all_short_lengths_at_random_alignments(variant):
    offsets = np.random.default_rng(21).integers(0, 64, 601)
    wrong = [n for n, at in enumerate(offsets) if crc_of(variant, int(at), n) != zlib_crc(int(at), n)]
    assert wrong == []


@every_variant
@pytest.mark.parametrize("length", LARGE_LENGTHS)
@pytest.mark.parametrize("offset", [0, 1, 37])
def test_large_lengths(variant, length, offset):
    assert crc_of(variant, offset, length) == zlib_crc(offset, length)


@every_variant
@given(first=st.integers(0, 700), second=st.integers(0, 700))
def test_a_message_may_come_in_pieces(variant, first, second):
    state = crc_of(variant, 0, first)
    assert crc_of(variant, first, second, state) == zlib_crc(0, first + second)


@every_variant
def test_check_value_of_the_catalogue(variant):
    """ "123456789" gives 0xCBF43926 in every catalogue of CRCs."""
    message = np.frombuffer(b"123456789", np.uint8)
    state = variant(np.uint32(crc.START), np.uint64(message.ctypes.data), np.uint64(9))
    assert ~int(state) & 0xFFFF_FFFF == 0xCBF4_3926


@pytest.mark.parametrize("headers", crc.HEADERS.values(), ids=list(crc.HEADERS))
@given(
    words=st.tuples(*[st.integers(0, 2**64 - 1)] * 6),
    offset=st.integers(0, 63),
    length=st.one_of(st.integers(0, 40), st.integers(0, 5000)),
)
def test_headers_and_payload(headers, words, offset, length):
    behind, area = crc.HEADERS_SIZE - 8 * len(words), MEMORY[offset : offset + crc.HEADERS_SIZE + length]
    message = np.array(words, "<u8").tobytes() + area[:behind].tobytes() + area[behind : behind + length].tobytes()
    address = np.uint64(MEMORY.ctypes.data + offset)
    begin, go_on = headers
    low, high = begin(np.uint32(crc.START), tuple(map(np.uint64, words)), address)
    state = go_on(np.uint64(low), np.uint64(high), address + np.uint64(behind), np.uint64(length))
    assert int(state) == ~zlib.crc32(message) & 0xFFFF_FFFF


def test_barrett_constants_are_the_published_ones():
    """Gopal et al., Intel 2009, for the reflected Ethernet polynomial."""
    assert folding.BARRETT_QUOTIENT == 0x1_F701_1641
    assert folding.BARRETT_POLYNOMIAL == 0x1_DB71_0641


@pytest.mark.parametrize("exponent", [0, 1, 31, 32, 33, 8 << 16])
def test_inverse_powers(exponent):
    power = folding.divide(1 << exponent)[1]
    inverse = folding.reflect(folding.inverse_power(exponent), folding.DEGREE)
    assert folding.multiply(power, inverse) == 1


@pytest.mark.parametrize(
    ("features", "fastest"),
    [
        ({"pclmul", "sse4.1", "avx2", "vpclmulqdq", "avx512f"}, "crc_clmul_512"),
        ({"pclmul", "sse4.1", "avx2", "vpclmulqdq"}, "crc_clmul_256"),
        ({"pclmul", "sse4.1", "avx2"}, "crc_clmul_128"),
        (set(), "crc_slicing"),
    ],
)
def test_choice_by_cpu_features(features, fastest):
    variants = crc.available_variants(frozenset(features))
    assert next(iter(variants)) == fastest
    assert "crc_slicing" in variants


def test_registers_of_512_bits_are_used_where_they_cost_no_speed():
    narrow = cpu.names("+avx512f,+avx2,-vpclmulqdq")
    assert narrow == {"avx512f", "avx2"}
    assert not narrow >= cpu.WIDE_REGISTERS
    if "NUMBA_CPU_FEATURES" not in os.environ:
        assert ("-prefer-256-bit" in (config.CPU_FEATURES or "")) == (crc.cpu_features() >= cpu.WIDE_REGISTERS)


def test_the_fastest_variant_of_this_cpu_is_in_use():
    assert crc.crc_update is next(iter(crc.available_variants(crc.cpu_features()).values()))


@pytest.mark.parametrize("multiply", crc.MULTIPLICATIONS, ids=lambda function: function.__name__)
@given(one=st.integers(0, 2**32 - 1), other=st.integers(0, 2**32 - 1))
def test_product_of_two_registers(multiply, one, other):
    """Of polynomials whose highest coefficient is the lowest bit."""
    product = 0
    for bit in range(folding.DEGREE):
        if folding.reflect(one, 32) >> bit & 1:
            product ^= folding.reflect(other, 32) << bit
    expected = folding.reflect(folding.divide(product)[1], 32)
    assert int(multiply(np.uint32(one), np.uint32(other))) == expected


@given(state=st.integers(0, 2**32 - 1), difference=st.integers(0, 2**32 - 1), length=st.integers(0, 5000))
def test_what_another_beginning_comes_to(state, difference, length):
    other = crc_of(crc.crc_update, 3, length, state ^ difference)
    change = crc.crc_multiply(np.uint32(difference), crc.crc_power(np.uint64(length)))
    assert crc_of(crc.crc_update, 3, length, state) ^ int(change) == other
