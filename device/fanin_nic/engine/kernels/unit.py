"""Python functions compiled into one unit of C functions.

numba's `cfunc` would compile, cache and load each alone, and a device would spend most of its start on a hundred small
files. Here one compiled function stores the addresses of all; the kernels are part of its code and of its one entry in
the cache. Record 0028 has the rules for loops that LLVM vectorises.
"""

from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir
from numba import types
from numba.core.compiler import Flags, compile_internal
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from fanin_nic.native.libraries import InternalLibrary
from fanin_nic.native.memory import BYTE_POINTER

WORD = ir.IntType(64)
C_FUNCTION = ir.FunctionType(ir.VoidType(), [BYTE_POINTER, BYTE_POINTER, WORD])


class Kernel(NamedTuple):
    """A Python function to compile, and the numba types of the elements behind its two pointers."""

    function: Callable
    accumulator: types.Type
    data: types.Type


@intrinsic
def elements(typing_context, pointer, count):
    """The `count` elements at `pointer` as an array of any alignment, unlike `carray`: clients have data anywhere."""
    array_type = types.Array(pointer.dtype, 1, "C", aligned=False)

    def generate(context, builder, signature, arguments):
        array = make_array(array_type)(context, builder)
        size = ir.Constant(WORD, context.get_abi_sizeof(context.get_data_type(array_type.dtype)))
        populate_array(array, arguments[0], [arguments[1]], [size], size, meminfo=None)
        return array._getvalue()

    return array_type(pointer, types.int64), generate


@intrinsic
def floats_at(typing_context, pointer):
    """The same address as a pointer to f32. The compiler can not see that it is the same, so it vectorises a loop from
    one to the other behind a run-time check that reads and writes do not overlap."""
    result = types.CPointer(types.float32)

    def generate(context, builder, signature, arguments):
        address = builder.bitcast(arguments[0], BYTE_POINTER)
        unknown = builder.asm(ir.FunctionType(BYTE_POINTER, [BYTE_POINTER]), "", "=r,0", [address], side_effect=False)
        return builder.bitcast(unknown, context.get_value_type(result))

    return result(pointer), generate


def addresses_of(kernels: list[Kernel]):
    """Compiled function `(table)` that stores the addresses of the C functions of `kernels`, in order, 8 bytes each."""

    @intrinsic
    def store_addresses(typing_context, table):
        def generate(context, builder, signature, arguments):
            places = builder.inttoptr(arguments[0], WORD.as_pointer())
            for number, kernel in enumerate(kernels):
                function = _c_function(context, builder, kernel, number)
                place = builder.gep(places, [ir.Constant(WORD, number)])
                builder.store(builder.ptrtoint(function, WORD), place)
            return context.get_dummy_value()

        return types.void(types.uint64), generate

    return store_addresses


def _c_function(context, builder, kernel: Kernel, number: int) -> ir.Function:
    """The C function around a kernel, in the module of `builder`."""
    signature = types.void(types.CPointer(kernel.accumulator), types.CPointer(kernel.data), types.int64)
    flags = Flags()
    flags.forceinline = True
    flags.error_model = "numpy"  # no exceptions, which would keep a division from vectorising
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    library = InternalLibrary(context.codegen(), kernel.function.__name__)
    compiled = compile_internal(
        context.typing_context, context, library, kernel.function, signature.args, signature.return_type, flags, {}
    )
    context.active_code_library.add_linking_library(library)
    function = ir.Function(builder.module, C_FUNCTION, f"kernel_{number}")
    function.linkage = "internal"
    body = ir.IRBuilder(function.append_basic_block())
    pointers = [
        body.bitcast(pointer, context.get_value_type(argument))
        for pointer, argument in zip(function.args, signature.args[:2], strict=False)
    ]
    context.call_internal_no_propagate(body, compiled.fndesc, signature, [*pointers, function.args[2]])
    body.ret_void()
    return function
