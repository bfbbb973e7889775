"""A mutant: the replaced text of the engine, the new text, and the check that must fail."""

from typing import NamedTuple

ON = "MUTANT"  # in the new text: the condition that selects this mutant


class Check(NamedTuple):
    """A check that passes on the sound engine.

    kind: "explorer" or "test".
    name: of the explorer's instance, or the id of the pytest node.
    """

    kind: str
    name: str


def explorer(instance: str) -> Check:
    """The exhaustive search of an instance."""
    return Check("explorer", instance)


def test(node: str) -> Check:
    """A test of the suite, by its id without the folder `tests/`."""
    return Check("test", f"tests/{node}")


test.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it


class Mutant(NamedTuple):
    """A fault.

    file: the file of `fanin_nic`, in which `old` occurs exactly once.
    new: the text that replaces `old`; it contains ON.
    check: the check that fails.
    report: if the check is the explorer, a part of its output.
    """

    name: str
    file: str
    old: str
    new: str
    check: Check
    report: str = ""
