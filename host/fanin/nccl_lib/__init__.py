"""The plugin for NCCL: with `NCCL_NET_PLUGIN`, it gives NCCL the devices as its collective network (CollNet).

It is written in C, on libfanin: `nccl_abi.h` (what NCCL and a plugin say to each other), `interfaces.c` (a table of
functions for each version), `collectives.c` (groups of ranks, and their collectives), `sockets.c` (the connections
between two ranks that NCCL wants besides). `docs/nccl-ucc.md` describes it.
Record 0071 (docs/decisions) says why a group is a job, and why memory is copied.
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
