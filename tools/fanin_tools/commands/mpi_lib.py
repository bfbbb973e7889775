"""`fanin mpi-lib`."""

from __future__ import annotations

from fanin_tools import options
from fanin_tools.output import print_json, reporting


@reporting
def mpi_lib(json_output: options.Json = False) -> None:
    """Print the path of the MPI shim: LD_PRELOAD=$(fanin mpi-lib) mpirun -n 4 PROGRAM."""
    from fanin.mpi import library_path

    path = library_path()
    if json_output:
        print_json({"path": str(path)})
    else:
        print(path)
