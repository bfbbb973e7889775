"""The engine's events as compiled code calls them: by address.

A compiled function that called them by name would be compiled together with the whole engine. So it runs the very
machine code that the rest of the simulator calls from Python.
"""

from __future__ import annotations

from llvmlite import ir
from numba import int64, types
from numba.core import cgutils
from numba.extending import intrinsic

from fanin_nic.engine import events

# Events by the member of WORLD that holds their address, with their number of arguments.
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
    """Call a C function of so many 64-bit words; returns a word, which is no value where the function returns none."""

    def generate(context, builder, signature, arguments):
        values = cgutils.unpack_tuple(builder, arguments[1])
        function_type = ir.FunctionType(ir.IntType(64), [value.type for value in values])
        return builder.call(builder.inttoptr(arguments[0], function_type.as_pointer()), values)

    return types.int64(types.uint64, words), generate


def event_addresses() -> dict[str, int]:
    """Address of each event, by the member of WORLD; compiled, or loaded from the cache, if need be."""
    return {f"on_{name}": entry_point(getattr(events, name), count) for name, count in ARGUMENTS.items()}


def entry_point(function, arguments: int) -> int:
    """Address of a compiled function, for a number of 64-bit arguments, as C calls it. TypeError if what it returns
    does not come in the register that `call_event` takes it from."""
    signature = (int64,) * arguments
    function.compile(signature)
    compiled = function.overloads[signature]
    if compiled.signature.return_type not in (int64, types.none):
        raise TypeError(f"{function.__name__} returns {compiled.signature.return_type}, which is no 64-bit integer")
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
