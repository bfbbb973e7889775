"""The MPI shim: a library for LD_PRELOAD, which runs the collectives of unchanged MPI programs on the devices.

It is written in C, in the folders here: `entry` (the functions that programs call), `calls` (from arguments of MPI to
operations of libfanin), `requests`, `comm` (communicators, and how their ranks form jobs) and `abi` (the binary
interfaces of the MPIs). `thresholds.c` says which sizes the devices get, and `tune.c` measures that. `docs/mpi.md`
describes it.
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
