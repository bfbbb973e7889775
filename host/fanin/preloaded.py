"""The libraries that programs preload: where they are."""

from __future__ import annotations

from pathlib import Path

from fanin.driver import BUILD_IT
from fanin.errors import DriverMissing


def built(library: Path, name: str) -> Path:
    """The path of a library; DriverMissing, with its name in words, if it has not been built."""
    if not library.exists():
        raise DriverMissing(f"{name} is not at {library}", remedy=BUILD_IT)
    return library
