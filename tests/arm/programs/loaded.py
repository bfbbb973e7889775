"""A program for arm64: the functions that a device compiles when it loads its code.

It prints JSON: `cpu`, LLVM's name of the processor; `compiled`, the compiled functions; `counted`, the same counter's
result for one function that must be compiled.
"""

import json
from collections.abc import Callable

from numba import config, njit, types
from numba.core import event


def compilations(work: Callable[[], None]) -> list[str]:
    """The functions that numba compiles during a call, as the cache lacks them."""
    with event.install_recorder("numba:compile") as recorder:
        work()
    return [str(each.data["dispatcher"]) for _, each in recorder.buffer if each.is_start]


def load() -> None:
    """The work of a device before it serves."""
    from fanin_nic.daemon.precompile import precompile

    precompile()


def compile_one() -> None:
    """Compile a function that no cache has."""
    njit(lambda number: number + 1).compile((types.int64,))


def main() -> None:
    compiled = compilations(load)
    counted = len(compilations(compile_one))
    print(json.dumps({"cpu": config.CPU_NAME, "compiled": compiled, "counted": counted}))


if __name__ == "__main__":
    main()
