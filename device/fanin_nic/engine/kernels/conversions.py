"""f16 and bf16 to f32 and back, for compiled code; the elements of the small types are their bits, uint16.

Rounding is to nearest, ties to even. A NaN stays a NaN, but may become another. LLVM's instructions for f16 become
those of the processor (F16C on x86, all of AArch64), or calls of a function that a just-in-time compiler does not find;
there the conversion works on the bits.
"""

from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable

SHORT, INTEGER, HALF, FLOAT = ir.IntType(16), ir.IntType(32), ir.HalfType(), ir.FloatType()
UINT32 = types.uint32

Instructions = Callable[[ir.IRBuilder, ir.Value], ir.Value]


def has_f16(context) -> bool:
    """Whether the target processor converts f16."""
    triple, _, features = context.codegen().magic_tuple()
    return triple.startswith("aarch64") or "+f16c" in features.split(",")


def conversion(argument: types.Type, result: types.Type, instructions: Instructions, otherwise: Callable | None = None):
    """Compiled function of one argument, made of LLVM's `instructions`; if the processor lacks f16, of `otherwise`."""

    @intrinsic
    def convert(typing_context, value):
        def generate(context, builder, signature, arguments):
            if otherwise is None or has_f16(context):
                return instructions(builder, arguments[0])
            return context.compile_internal(builder, otherwise, signature, arguments)

        return result(argument), generate

    return convert


bits_of = conversion(types.float32, types.uint32, lambda builder, value: builder.bitcast(value, INTEGER))
f32_of_bits = conversion(types.uint32, types.float32, lambda builder, bits: builder.bitcast(bits, FLOAT))


@register_jitable
def f32_of_bf16(value):
    """bf16 is the upper half of f32."""
    return f32_of_bits(UINT32(value) << UINT32(16))


@register_jitable
def bf16_of_f32(value):
    """The upper half, rounded; not for NaN."""
    bits = bits_of(value)
    return types.uint16((bits + UINT32(0x7FFF) + ((bits >> UINT32(16)) & UINT32(1))) >> UINT32(16))


def f32_of_f16_by_bits(value):
    """The digits and exponent in the places of f32 are a number 2^112 times too small, also if subnormal."""
    magnitude = UINT32(value & 0x7FFF) << UINT32(13)
    scaled = bits_of(f32_of_bits(magnitude) * types.float32(2.0**112))
    infinite = UINT32(0x7F800000) | magnitude
    return f32_of_bits((infinite if magnitude >= UINT32(0x0F800000) else scaled) | UINT32(value & 0x8000) << UINT32(16))


def f16_of_f32_by_bits(value):
    """Not for NaN. A sum with 1/2 rounds to 2^-24, the unit of subnormal f16, whose digits are then the last ones."""
    bits = bits_of(value)
    magnitude = bits & UINT32(0x7FFFFFFF)
    subnormal = bits_of(f32_of_bits(magnitude) + types.float32(0.5)) - UINT32(0x3F000000)
    normal = (magnitude - UINT32(112 << 23) + UINT32(0xFFF) + ((magnitude >> UINT32(13)) & UINT32(1))) >> UINT32(13)
    rounded = subnormal if magnitude < UINT32(113 << 23) else min(normal, UINT32(0x7C00))
    infinite = magnitude >= UINT32(143 << 23)
    return types.uint16((UINT32(0x7C00) if infinite else rounded) | (bits >> UINT32(16)) & UINT32(0x8000))


f32_of_f16 = conversion(
    types.uint16,
    types.float32,
    lambda builder, value: builder.fpext(builder.bitcast(value, HALF), FLOAT),
    f32_of_f16_by_bits,
)
f16_of_f32 = conversion(
    types.float32,
    types.uint16,
    lambda builder, value: builder.bitcast(builder.fptrunc(value, HALF), SHORT),
    f16_of_f32_by_bits,
)
