"""How machine code comes from the cache.

Before it loads anything, numba makes its compiler ready: some hundred modules, with all that it knows of Python and
numpy, and its runtime, part of which it compiles. Only compiling needs the first, and sees to it itself when a function
is not in the cache. Only functions of arrays need the second: it counts their references. Those of a device have none.
Record 0094 (docs/decisions): what else a start leaves out.
"""

from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.core.runtime import _nrt_python, rtsys
from numba.core.sigutils import normalize_signature

llvm.add_symbol("NRT_Free", _nrt_python.c_helpers["Free"])  # all that code for numbers calls of the runtime


def load_alone(cache: Any) -> None:
    """Let a cache of numba's load machine code without making the compiler ready, nor the runtime where no argument is
    an array. Only for functions that make no arrays."""

    def load_overload(signature: Any, target_context: Any) -> Any:
        arguments, _ = normalize_signature(signature)
        if any(isinstance(kind, types.Buffer) for kind in arguments):
            rtsys.initialize(target_context)
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, target_context)

    cache.load_overload = load_overload
