"""Calls of the engine's events by address.

If compiled code called the events by name, it would be compiled together with the whole engine. By address, it runs the
same machine code as the daemon.
"""

from __future__ import annotations

from llvmlite import ir
from numba import int64, types
from numba.core import cgutils
from numba.extending import intrinsic

from fanin_nic.engine import events

# Number of arguments of each event. Its address is the member on_NAME of WORLD.
ARGUMENTS = {
    "packet": 5,
    "batch_end": 2,
    "post": 4,
    "serve": 3,
    "dma_done": 8,
    "tick": 2,
    "join": 4,
    "leave": 4,
    "lose": 4,
    "forgive": 3,
}


@intrinsic
def call_event(typing_context, address, words):
    """Calls a C function with a tuple of 64-bit words. Returns a word, which is undefined if the function returns
    nothing."""

    def generate(context, builder, signature, arguments):
        values = cgutils.unpack_tuple(builder, arguments[1])
        function_type = ir.FunctionType(ir.IntType(64), [value.type for value in values])
        return builder.call(builder.inttoptr(arguments[0], function_type.as_pointer()), values)

    return types.int64(types.uint64, words), generate


def event_addresses() -> dict[str, int]:
    """Returns the address of each event, by the member of WORLD. Compiles the events if they are not in the cache."""
    return {f"on_{name}": entry_point(getattr(events, name), count) for name, count in ARGUMENTS.items()}


def entry_point(function, arguments: int) -> int:
    """Returns the address of a compiled function for a number of 64-bit arguments, with the C calling convention.

    Raises:
        TypeError: the function returns a value that is not in the register that `call_event` reads.
    """
    signature = (int64,) * arguments
    function.compile(signature)
    compiled = function.overloads[signature]
    if compiled.signature.return_type not in (int64, types.none):
        raise TypeError(f"{function.__name__} returns {compiled.signature.return_type}, which is no 64-bit integer")
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
