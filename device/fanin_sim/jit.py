"""Decorators of the simulator's compiled functions, and the cache of their machine code.

The device's cache is apart, so a change of the simulator compiles no device code. numba notices only changes of a
function's own file, so the name of the simulator's cache folder has a digest of all files that are compiled.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import config

from fanin_nic.native import compiled as native
from fanin_nic.native.cache import source_digest
from fanin_nic.native.locator import add_package

PACKAGE = Path(__file__).parent
add_package(PACKAGE)


def compiled_sources() -> list[Path]:
    """The files of the simulator with compiled functions, or with values that those use.

    Each of them contains the word `numba` or the word `jit`.
    """
    sources = sorted(PACKAGE.rglob("*.py"))
    return [path for path in sources if {"numba", "jit"} & set(re.findall(r"\w+", path.read_text()))]


FOLDER = native.CACHE_FOLDER / f"sim-{source_digest(compiled_sources())}"


@contextmanager
def _simulator_cache() -> Iterator[None]:
    """Makes numba use the simulator's folder: it reads the setting when it decorates a function."""
    config.CACHE_DIR = str(FOLDER)
    try:
        yield
    finally:
        config.CACHE_DIR = str(native.CACHE_FOLDER)


def compiled(function: Callable) -> Any:
    """Decorator of a compiled function of the simulator."""
    with _simulator_cache():
        return native.compiled(function)


def internal(function: Callable) -> Any:
    """Decorator of a compiled function of the simulator that Python never calls."""
    with _simulator_cache():
        return native.internal(function)
