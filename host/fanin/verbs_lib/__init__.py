"""The verbs library: for LD_PRELOAD, it gives unchanged verbs programs the devices of this host.

It is written in C, in the folders here: `abi` (the binary interface of libibverbs), `device`, `memory`, `completions`
and `queue_pairs` (the objects of verbs, on libfanin), `collectives` (what fanin.verbs asks of it). `docs/verbs.md`
describes it.
Record 0059 (docs/decisions) says why it is preloaded, and no provider.
"""

from pathlib import Path

from fanin.preloaded import built

LIBRARY = Path(__file__).parents[1] / "libfanin_verbs.so"


def library_path() -> Path:
    """The path of the library, for LD_PRELOAD.

    Raises:
        DriverMissing: The library has not been built.
    """
    return built(LIBRARY, "the verbs library")
