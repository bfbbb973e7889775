"""Where the libraries are that programs preload."""

from pathlib import Path

from fanin.driver import build_it
from fanin.errors import DriverMissing


def built(library: Path, name: str) -> Path:
    """The path of a library; DriverMissing, which names it, if it has not been built."""
    if not library.exists():
        raise DriverMissing(f"{name} is not at {library}", remedy=build_it())
    return library
