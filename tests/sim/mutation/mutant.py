"""What a mutant is: some text of the engine, what takes its place, and which check must then fail."""

from __future__ import annotations

from typing import NamedTuple

ON = "MUTANT"  # in the new text: the condition that this mutant is switched on


class Check(NamedTuple):
    """Something that passes on the sound engine. kind: "explorer", an instance of it, or "test", the id of a pytest
    node; `name`: of the instance or the node."""

    kind: str
    name: str


def explorer(instance: str) -> Check:
    """The exhaustive search of an instance."""
    return Check("explorer", instance)


def test(node: str) -> Check:
    """A test of the suite, by its id without the folder `tests/`."""
    return Check("test", f"tests/{node}")


test.__test__ = False  # type: ignore[attr-defined]  # pytest must not take it for one


class Mutant(NamedTuple):
    """A fault. `file` of `fanin_nic` in which `old` stands exactly once; `new`, which takes its place, contains ON.
    `check` fails on it; if it is the explorer, with `report` in what it prints."""

    name: str
    file: str
    old: str
    new: str
    check: Check
    report: str = ""
