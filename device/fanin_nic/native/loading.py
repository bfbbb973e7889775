"""How machine code comes from the cache.

Before it loads anything, numba makes its compiler ready: some hundred modules, with all that it knows of Python and
numpy. That takes a quarter of the start of a device, and only compiling needs it. The compiler sees to it itself when a
function is not in the cache.
"""

from __future__ import annotations

from typing import Any

from numba.core.runtime import rtsys


def load_alone(cache: Any) -> None:
    """Let a cache of numba's load machine code without making the compiler ready. Only for code of the device, which
    calls nothing of numba but its runtime."""

    def load_overload(signature: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # what machine code calls of numba's own
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, target_context)

    cache.load_overload = load_overload
