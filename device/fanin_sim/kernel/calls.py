"""Calls of the events of an engine or a transport by address: they run the same machine code as the daemon.

By name, numba would compile the caller together with all that it calls.
"""

from llvmlite import ir
from numba import int64, types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def call_event(typing_context, address, words):
    """Calls a C function with a tuple of 64-bit words. Returns a word, which is undefined without a return value."""

    def generate(context, builder, signature, arguments):
        values = cgutils.unpack_tuple(builder, arguments[1])
        function_type = ir.FunctionType(ir.IntType(64), [value.type for value in values])
        return builder.call(builder.inttoptr(arguments[0], function_type.as_pointer()), values)

    return types.int64(types.uint64, words), generate


def entry_point(function, arguments: int) -> int:
    """The address of a compiled function of `arguments` 64-bit words, with the C calling convention.

    Raises TypeError if the return value is not in the register that `call_event` reads.
    """
    signature = (int64,) * arguments
    function.compile(signature)
    compiled = function.overloads[signature]
    if compiled.signature.return_type not in (int64, types.none):
        raise TypeError(f"{function.__name__} returns {compiled.signature.return_type}, not a 64-bit integer")
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
