"""The decorators of the simulator's compiled code, which is cached in a folder of its own.

The folder of the device's machine code does not depend on the simulator, so that work on the simulator compiles no
device anew. As numba notices a change of a function's own file only, the simulator's folder carries a digest, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import config

from fanin_nic.native import compiled as native


def compiled_sources() -> list[Path]:
    """The files of the simulator whose content ends up in machine code: those that speak of it."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    return [path for path in sources if {"numba", "machine_code"} & set(re.findall(r"\w+", path.read_text()))]


FOLDER = native.CACHE_FOLDER / f"sim-{native.source_digest(compiled_sources())}"


@contextmanager
def _cached_here() -> Iterator[None]:
    """numba asks for the folder of the cache when a function is decorated."""
    config.CACHE_DIR = str(FOLDER)
    try:
        yield
    finally:
        config.CACHE_DIR = str(native.CACHE_FOLDER)


def compiled(function: Callable) -> Any:
    """Decorator of a compiled function of the simulator."""
    with _cached_here():
        return native.compiled(function)


def internal(function: Callable) -> Any:
    """Decorator of a compiled function of the simulator that Python never calls."""
    with _cached_here():
        return native.internal(function)
