"""A libsharp_coll for UCC, whose layer `sharp` gives the collectives of its teams to the devices with it.

This folder is what UCC's `configure --with-sharp=` takes: `include` has the headers, `lib` the library. In C, on
libfanin: `context.c` (a process and its NIC), `inheritance.c` (forked children), `agreement.c` (what ranks exchange
through UCC), `comm.c` (groups of ranks), `collectives.c` (requests), `log.c`. See `docs/nccl-ucc.md`. Record 0080
(docs/decisions) says why SHARP's interface, and no layer of our own.
"""

from pathlib import Path

from fanin.preloaded import built

PREFIX = Path(__file__).parent
LIBRARY = PREFIX / "lib/libsharp_coll.so"


def prefix() -> Path:
    """The folder for `configure --with-sharp=`.

    Raises:
        DriverMissing: The library has not been built.
    """
    built(LIBRARY, "libsharp_coll for UCC")
    return PREFIX
