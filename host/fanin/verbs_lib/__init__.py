"""The verbs library: for LD_PRELOAD, it gives unchanged verbs programs the devices of this host.

It is written in C, in the folders here: `abi` (the binary interface of libibverbs), `device`, `memory`, `completions`
and `queue_pairs` (the objects of verbs, on libfanin). `docs/verbs.md` describes it.
"""

from __future__ import annotations

from pathlib import Path

from fanin.errors import DriverMissing

LIBRARY = Path(__file__).parents[1] / "libfanin_verbs.so"


def library_path() -> Path:
    """The path of the library, for LD_PRELOAD.

    Raises:
        DriverMissing: The library has not been built.
    """
    if not LIBRARY.exists():
        remedy = "Build it: install a C compiler (Debian: gcc), then `pip install -e .` in the project's folder."
        raise DriverMissing(f"the verbs library is not at {LIBRARY}", remedy=remedy)
    return LIBRARY
