"""CRC-32 by Arm's instructions for Ethernet's polynomial (CRC32X and its like), 8 bytes at once.

As in `crc`, the register is not inverted before or after. Only a processor with ARM_CRC may compile this: without it
LLVM ends the process.
"""

from llvmlite import ir
from numba import types, uint32, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import load_u8, load_u32, load_u64

ARM_CRC = frozenset(("neon", "crc"))  # x86 has another polynomial; "neon" means Arm
REGISTER = ir.IntType(32)


def _instruction(suffix: str, operand: ir.IntType):
    """Intrinsic `(state: uint32, data) -> uint32` of one instruction; data: a number whose lowest bits count."""

    @intrinsic
    def instruction(typing_context, state, data):
        def generate(context, builder, signature, arguments):
            register, word = arguments
            function_type = ir.FunctionType(REGISTER, [REGISTER, operand])
            function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.aarch64.crc32{suffix}")
            return builder.call(function, [register, word])

        return types.uint32(types.uint32, types.uint64 if operand.width == 64 else types.uint32), generate

    return instruction


crc_byte = _instruction("b", REGISTER)
crc_word = _instruction("w", REGISTER)
crc_double = _instruction("x", ir.IntType(64))


@compiled
def crc_instructions(state, address, length):
    """The CRC register after `length` bytes, as of `crc.crc_update`."""
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
def register_of(low, high):
    """CRC register after the 16 message bytes (low, high) from a register of 0."""
    return crc_double(crc_double(uint32(0), low), high)
