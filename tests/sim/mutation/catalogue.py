"""The mutants, from the patches in this folder.

A patch begins with `== NAME` and `@ FILE | CHECK`, or `@ FILE | CHECK | REPORT`: a file of `fanin_nic`; `explorer` and
an instance of it, or a test by its id without the folder `tests/`; and, of the explorer, a part of its output. Then
follow lines that the file has once: removed (-), added (+), and unchanged ones.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.sim.mutation.mutant import Check, Mutant, explorer, test

PARTS = ("segments", "rings", "jobs", "nodes", "groups", "data_ahead", "transport")
EXPLORER = "explorer "


def check_of(text: str) -> Check:
    return explorer(text.removeprefix(EXPLORER)) if text.startswith(EXPLORER) else test(text)


def patches(text: str) -> Iterator[Mutant]:
    for patch in text.split("\n== ")[1:]:
        name, about, *lines = (line for line in patch.strip("\n").split("\n") if not line.startswith("#"))
        file, check, *report = about.removeprefix("@ ").split(" | ")
        old, new = ("".join(f"{line[1:]}\n" for line in lines if not line.startswith(sign)) for sign in "+-")
        yield Mutant(name, file, old.rstrip("\n") + "\n", new.rstrip("\n") + "\n", check_of(check), *report)


MUTANTS = tuple(
    mutant for part in PARTS for mutant in patches(Path(__file__).with_name(f"faults_of_{part}.diff").read_text())
)
