"""The polynomial of CRC-32 (Ethernet, IEEE 802.3), its folding constants and byte tables.

Polynomials over GF(2) are Python integers, bit n the coefficient of x^n. *Reflected*: the lowest bit is the highest
coefficient, as on Ethernet. The method is Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
Instruction", Intel 2009.
"""

import numpy as np

DEGREE = 32
POLYNOMIAL = 0x1_04C1_1DB7


def reflect(value: int, bits: int) -> int:
    """`value` with its lowest `bits` bits reversed."""
    return int(f"{value:0{bits}b}"[::-1], 2)


def divide(dividend: int, divisor: int = POLYNOMIAL) -> tuple[int, int]:
    """Quotient and remainder of polynomials."""
    quotient = 0
    while dividend.bit_length() >= divisor.bit_length():
        shift = dividend.bit_length() - divisor.bit_length()
        quotient |= 1 << shift
        dividend ^= divisor << shift
    return quotient, dividend


def multiplier(exponent: int) -> int:
    """Reflected 64-bit factor that multiplies a reflected 64-bit polynomial by x^exponent, modulo the polynomial. It
    makes up for the factor x by which a carry-less product of reflected words is too high."""
    return reflect(divide(1 << (exponent - 1))[1], 64)


def multiply(one: int, other: int) -> int:
    """Product of two polynomials, modulo the polynomial."""
    product = 0
    for exponent in range(other.bit_length()):
        if other >> exponent & 1:
            product ^= one << exponent
    return divide(product)[1]


def inverse_power(exponent: int) -> int:
    """x^-exponent modulo the polynomial, reflected."""
    result, power = 1, POLYNOMIAL >> 1  # x^-1: the polynomial has the coefficient 1, so x divides it + 1
    while exponent:
        if exponent & 1:
            result = multiply(result, power)
        power, exponent = multiply(power, power), exponent >> 1
    return reflect(result, DEGREE)


def fold_multipliers(distance: int) -> tuple[int, int]:
    """Factors for the low and high word of a 128-bit accumulator that moves on by `distance` bits."""
    return multiplier(distance + 64), multiplier(distance)


# Barrett reduction of a 64-bit remainder to 32 bits; both have 33 bits, reflected
BARRETT_QUOTIENT = reflect(divide(1 << (2 * DEGREE))[0], DEGREE + 1)
BARRETT_POLYNOMIAL = reflect(POLYNOMIAL, DEGREE + 1)


def byte_tables(count: int) -> np.ndarray:
    """Tables of slicing-by-`count`, uint32 [count, 256]: [k, b] is the register after byte b and k zeros, from 0."""
    tables = np.empty((count, 256), np.uint32)
    tables[0] = [reflect(divide(reflect(byte, 8) << DEGREE)[1], DEGREE) for byte in range(256)]
    for k in range(1, count):
        tables[k] = (tables[k - 1] >> 8) ^ tables[0][tables[k - 1] & 0xFF]
    return tables
