"""The entries of a device with the types of their arguments: all that has machine code in the cache. They are those
that `precompile` has compiled or loaded in this process, so no second list is needed."""

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from numba import types

from fanin_nic.daemon.precompile import precompile
from fanin_nic.native.compiled import Compiled


class Entry(NamedTuple):
    """A compiled function, by module and name, and the types of its arguments."""

    module: str
    name: str
    arguments: tuple[types.Type, ...]

    def compile(self) -> None:
        """Make its machine code in this process, or load it from the cache."""
        getattr(import_module(self.module), self.name).compile(self.arguments)


def entries() -> list[Entry]:
    """The entries of a device. Those that the cache lacks are compiled, for this processor."""
    precompile()
    functions = dict.fromkeys(_compiled_functions())
    return sorted(
        (
            Entry(function.__module__, function.__name__, kinds)
            for function in functions
            for kinds in function.overloads
        ),
        key=str,
    )


def _compiled_functions() -> Iterator[Compiled]:
    """All compiled functions of loaded modules; one that several import comes several times."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fanin_nic":
            yield from (value for value in vars(module).values() if isinstance(value, Compiled))
