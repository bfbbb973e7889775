"""Memory by address, for compiled code: records, loads and stores, atomics.

Addresses are unsigned 64-bit integers. A *record* is a numpy structured dtype laid over memory, passed by reference. It
must come from an accessor made by `record_at`: numba would copy one that a compiled function returns.
"""

import functools

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np import numpy_support

BYTE_POINTER = ir.IntType(8).as_pointer()

type_of = functools.cache(numpy_support.from_dtype)
"""numba's type of a dtype. Only the compiler asks for it."""


def record_at(dtype: np.dtype):
    """Compiled function `(address) -> record` that lays `dtype` over the memory at an address."""

    @intrinsic
    def at(typing_context, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(type_of(dtype)))

        return type_of(dtype)(types.uint64), generate

    return at


def row_at(base: np.dtype, offset_member: str, row: np.dtype):
    """Compiled function `(base record, index) -> record` of a table; the 64-bit member `offset_member` of the base
    record holds the table's byte offset from it."""
    member = base.fields[offset_member][1]  # type: ignore[index]

    @intrinsic
    def at(typing_context, record, index):
        def generate(context, builder, signature, arguments):
            word = ir.IntType(64)
            start = builder.ptrtoint(arguments[0], word)
            place = builder.inttoptr(builder.add(start, ir.Constant(word, member)), word.as_pointer())
            table = builder.add(start, builder.load(place))
            address = builder.add(table, builder.mul(arguments[1], ir.Constant(word, row.itemsize)))
            return builder.inttoptr(address, context.get_value_type(type_of(row)))

        return type_of(row)(record, types.uint64), generate

    return at


@intrinsic
def address_of(typing_context, record):
    if not isinstance(record, types.Record):
        return None

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(arguments[0], ir.IntType(64))

    return types.uint64(record), generate


def _load(bits: int, numba_type, swap: bool):
    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return builder.bswap(value) if swap and bits > 8 else value

        return numba_type(types.uint64), generate

    return load


def _store(bits: int, numba_type, swap: bool):
    @intrinsic
    def store(typing_context, address, value):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            stored = builder.bswap(arguments[1]) if swap and bits > 8 else arguments[1]
            builder.store(stored, pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, numba_type), generate

    return store


load_u8 = _load(8, types.uint8, swap=False)
load_u32 = _load(32, types.uint32, swap=False)
load_u64 = _load(64, types.uint64, swap=False)
load_i32 = _load(32, types.int32, swap=False)
load_be16 = _load(16, types.uint16, swap=True)
load_be32 = _load(32, types.uint32, swap=True)
load_be64 = _load(64, types.uint64, swap=True)
store_u8 = _store(8, types.uint8, swap=False)
store_u32 = _store(32, types.uint32, swap=False)
store_u64 = _store(64, types.uint64, swap=False)
store_be16 = _store(16, types.uint16, swap=True)
store_be32 = _store(32, types.uint32, swap=True)
store_be64 = _store(64, types.uint64, swap=True)


@intrinsic
def swapped(typing_context, word):
    """A 64-bit word with its bytes reversed."""

    def generate(context, builder, signature, arguments):
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


def _load_ordered(bits: int, numba_type, ordering: str):
    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            return builder.load_atomic(pointer, ordering, bits // 8)

        return numba_type(types.uint64), generate

    return load


def _store_ordered(bits: int, numba_type, ordering: str):
    @intrinsic
    def store(typing_context, address, value):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            builder.store_atomic(arguments[1], pointer, ordering, bits // 8)
            return context.get_dummy_value()

        return types.void(types.uint64, numba_type), generate

    return store


# For words that other threads or processes change or read; docs/orderings.md lists each use. An address is a multiple
# of the word's size. Later accesses can not overtake a load_acquire, earlier ones not fall behind a store_release; a
# load_relaxed orders nothing, but reads the word once, and anew in each turn of a loop.
load_acquire = _load_ordered(32, types.uint32, "acquire")
load_acquire_64 = _load_ordered(64, types.uint64, "acquire")
load_relaxed = _load_ordered(32, types.uint32, "monotonic")
store_release = _store_ordered(32, types.uint32, "release")
store_release_64 = _store_ordered(64, types.uint64, "release")


@intrinsic
def exchange(typing_context, address, value):
    """Store a 32-bit word and return the former one, in one step: store_release and load_acquire."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())
        return builder.atomic_rmw("xchg", pointer, arguments[1], "acq_rel")

    return types.uint32(types.uint64, types.uint32), generate


@intrinsic
def full_fence(typing_context):
    """Sequentially consistent: needed between 'store my flag' and 'look at the other side'."""

    def generate(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def copy(typing_context, destination, source, length):
    """memcpy of `length` bytes; the areas must not overlap."""

    def generate(context, builder, signature, arguments):
        target, origin, size = arguments
        builder.call(
            builder.module.declare_intrinsic("llvm.memcpy", [BYTE_POINTER, BYTE_POINTER, ir.IntType(64)]),
            [
                builder.inttoptr(target, BYTE_POINTER),
                builder.inttoptr(origin, BYTE_POINTER),
                size,
                ir.Constant(ir.IntType(1), 0),
            ],
        )
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), generate


@intrinsic
def fill_zero(typing_context, destination, length):
    def generate(context, builder, signature, arguments):
        builder.call(
            builder.module.declare_intrinsic("llvm.memset", [BYTE_POINTER, ir.IntType(64)]),
            [
                builder.inttoptr(arguments[0], BYTE_POINTER),
                ir.Constant(ir.IntType(8), 0),
                arguments[1],
                ir.Constant(ir.IntType(1), 0),
            ],
        )
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@intrinsic
def call_kernel(typing_context, kernel, accumulator, data, count):
    """Call the C function at address `kernel`: void (void *accumulator, void *data, int64_t count)."""

    def generate(context, builder, signature, arguments):
        word = ir.IntType(64)
        function_type = ir.FunctionType(ir.VoidType(), [BYTE_POINTER, BYTE_POINTER, word])
        function = builder.inttoptr(arguments[0], function_type.as_pointer())
        pointers = [builder.inttoptr(argument, BYTE_POINTER) for argument in arguments[1:3]]
        builder.call(function, [*pointers, arguments[3]])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, types.int64), generate


@intrinsic
def call_function(typing_context, address, first, second, third, fourth, fifth):
    """Call the C function at `address`: void (uint64_t, uint64_t, uint64_t, uint64_t, uint64_t)."""

    def generate(context, builder, signature, arguments):
        word = ir.IntType(64)
        function_type = ir.FunctionType(ir.VoidType(), [word] * 5)
        builder.call(builder.inttoptr(arguments[0], function_type.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(*[types.uint64] * 6), generate


@intrinsic
def call_library(typing_context, address, first, second, third):
    """Call the C function at `address`: int (uint64_t, uint64_t, uint64_t), or one with fewer or narrower integers."""

    def generate(context, builder, signature, arguments):
        function_type = ir.FunctionType(ir.IntType(32), [ir.IntType(64)] * 3)
        return builder.call(builder.inttoptr(arguments[0], function_type.as_pointer()), arguments[1:])

    return types.int32(*[types.uint64] * 4), generate


@intrinsic
def lowest_bit(typing_context, bitmap):
    """Number of the lowest set bit of a 64-bit map; 64 if it is empty."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def count_bits(typing_context, bitmap):
    """Number of set bits of a 64-bit map."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate
