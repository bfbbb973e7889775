"""The MPI shim: a library that is preloaded into programs of MPI, so that their collectives run on the devices.

It is written in C, in this folder; `docs/mpi.md` says what it does and how it decides.
"""

from __future__ import annotations

from pathlib import Path

from fanin.errors import DriverMissing

LIBRARY = Path(__file__).parents[1] / "libfanin_mpi.so"


def library_path() -> Path:
    """Where the library is, for LD_PRELOAD; DriverMissing if it has not been built."""
    if not LIBRARY.exists():
        remedy = "Build it: install a C compiler (Debian: gcc), then `pip install -e .` in the project's folder."
        raise DriverMissing(f"the MPI shim is not at {LIBRARY}", remedy=remedy)
    return LIBRARY
