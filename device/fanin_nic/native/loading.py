"""How machine code comes from the cache.

Before it loads anything, numba makes its compiler ready: some hundred modules, with all that it knows of Python and
numpy, and its runtime, part of which it compiles. Only compiling needs that, and sees to it itself when a function is
not in the cache.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.runtime import _nrt_python

llvm.add_symbol("NRT_Free", _nrt_python.c_helpers["Free"])  # all that machine code of the device calls of the runtime


def load_alone(cache: Any) -> None:
    """Let a cache of numba's load machine code without making the compiler ready. Only for code of the device, which
    calls nothing of numba's runtime but NRT_Free."""

    def load_overload(signature: Any, target_context: Any) -> Any:
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, target_context)

    cache.load_overload = load_overload
