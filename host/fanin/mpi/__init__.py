"""The MPI shim: a library for LD_PRELOAD, which runs the collectives of unchanged MPI programs on the devices.

In C: `entry` (the functions that programs call), `calls` (from MPI's arguments to libfanin's operations), `requests`,
`comm` (communicators, and how their ranks form jobs) and `abi` (binary interfaces of MPIs). `thresholds.c` says which
sizes the devices get; `tune.c` measures that. See `docs/mpi.md`.
"""

from pathlib import Path

from fanin.preloaded import built

LIBRARY = Path(__file__).parents[1] / "libfanin_mpi.so"


def library_path() -> Path:
    """The path of the library, for LD_PRELOAD.

    Raises:
        DriverMissing: The library has not been built.
    """
    return built(LIBRARY, "the MPI shim")
