"""The plugin for NCCL: with `NCCL_NET_PLUGIN`, it gives NCCL the devices as its collective network (CollNet).

In C, on libfanin: `nccl_abi.h` (NCCL's interface for plugins), `interfaces.c` (a table of functions for each version),
`collectives.c` (groups of ranks, and their collectives), `sockets.c` (the connections between two ranks that NCCL wants
besides). See `docs/nccl-ucc.md`. Record 0071 (docs/decisions) says why a group is a job, and why memory is copied.
"""

from pathlib import Path

from fanin.preloaded import built

LIBRARY = Path(__file__).parents[1] / "libnccl-net-fanin.so"


def library_path() -> Path:
    """The path of the plugin, for NCCL_NET_PLUGIN.

    Raises:
        DriverMissing: The plugin has not been built.
    """
    return built(LIBRARY, "the plugin for NCCL")
