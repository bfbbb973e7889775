"""The verbs library: for LD_PRELOAD, it gives unchanged verbs programs the devices of this host.

In C: `abi` (the binary interface of libibverbs), `device`, `memory`, `completions` and `queue_pairs` (the objects of
verbs, on libfanin), `collectives` (for fanin.verbs). See `docs/verbs.md`. Record 0059 (docs/decisions) says why it is
preloaded, and no provider.
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
