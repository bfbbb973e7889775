"""Faulty devices: the switch in plain Python with one mistake in its text, as an engineer may make it."""

import contextlib
import sys
import tomllib
from collections.abc import Iterator
from importlib import resources
from types import ModuleType
from typing import NamedTuple

from fanin_reference.switch import Switch

SOUND, COPY = "fanin_reference", "faulty_reference"
MODULES = ("spec", "packets", "arithmetic", "times", "job", "device", "membership", "positions", "switch")


class Mutant(NamedTuple):
    """clause: the broken demand. `right` is once in the module; `wrong` takes its place."""

    name: str
    clause: str
    module: str
    right: str
    wrong: str


class StaleMutant(LookupError):
    """The text of the module does not have the right line once."""


_TABLE = tomllib.loads(resources.files("fanin_conform").joinpath("mutants.toml").read_text(encoding="utf-8"))
MUTANTS = tuple(
    Mutant(name, clause, module, right, wrong)
    for module, entries in _TABLE.items()
    for name, (clause, right, wrong) in entries.items()
)


@contextlib.contextmanager
def faulty_switch(fault: Mutant) -> Iterator[type[Switch]]:
    """The class of a switch with a fault; inside the block its modules exist under another name.

    Raises StaleMutant after a change of the text: then mend the table.
    """
    package = ModuleType(COPY)
    package.__path__ = []
    sys.modules[COPY] = package
    try:
        for name in MODULES:
            text = resources.files(SOUND).joinpath(f"{name}.py").read_text(encoding="utf-8")
            if name == fault.module:
                if text.count(fault.right) != 1:
                    raise StaleMutant(f"{fault.name}: {fault.right!r} is {text.count(fault.right)} times in {name}.py")
                text = text.replace(fault.right, fault.wrong)
            _load(package, name, text.replace(SOUND, COPY))
        yield sys.modules[f"{COPY}.switch"].Switch
    finally:
        for name in (COPY, *(f"{COPY}.{each}" for each in MODULES)):
            sys.modules.pop(name, None)


def _load(package: ModuleType, name: str, text: str) -> None:
    module = ModuleType(f"{COPY}.{name}")
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(text, f"{name}.py with a fault", "exec"), module.__dict__)
