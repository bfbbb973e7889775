"""How machine code comes from the cache.

Before it loads anything, numba prepares its compiler (some hundred modules) and its runtime, part of which it compiles.
A function that is missing from the cache prepares the compiler itself. The runtime counts references of arrays, which
the functions of a device do not have. Record 0094: what else a start leaves out.
"""

from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.core.runtime import _nrt_python, rtsys
from numba.core.sigutils import normalize_signature

llvm.add_symbol("NRT_Free", _nrt_python.c_helpers["Free"])  # all that code for numbers calls of the runtime


def load_alone(cache: Any) -> None:
    """Let a numba cache load machine code without preparing the compiler, or the runtime unless an argument is an
    array. Only for functions that make no arrays."""

    def load_overload(signature: Any, target_context: Any) -> Any:
        arguments, _ = normalize_signature(signature)
        if any(isinstance(kind, types.Buffer) for kind in arguments):
            rtsys.initialize(target_context)
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, target_context)

    cache.load_overload = load_overload
