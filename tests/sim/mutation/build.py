"""One package with every mutant, so that all of them are compiled at once.

The copy lies beside the machine code of the sound engine, and its own machine code beside it: only the first run after
a change of the engine, of the simulator or of the list compiles.
"""

import ast
import hashlib
import os
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import fanin_nic
from fanin_nic.native.compiled import CACHE_FOLDER
from tests.sim.mutation.mutant import ON, Mutant

PACKAGE = Path(fanin_nic.__file__).parent
SWITCH = Path(__file__).with_name("switch.py")
IMPORT = "\nfrom fanin_nic.native.mutant import mutant_is\n"


class MutantInvalid(ValueError):
    """A mutant can not be made; the message says why."""


class Edit(NamedTuple):
    """A replacement of the characters `start` to `end` of a file."""

    start: int
    end: int
    text: str


def build(mutants: Sequence[Mutant]) -> Path:
    """The folder with the package, made if necessary. Mutant number k in it is `mutants[k - 1]`."""
    folder = CACHE_FOLDER / f"mutants-{digest_of(mutants)}"
    if not folder.exists():
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.copytree(PACKAGE, making / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(SWITCH, making / PACKAGE.name / "native" / "mutant.py")
        for file in sorted({mutant.file for mutant in mutants}):
            path = making / PACKAGE.name / file
            path.write_text(mutated(file, path.read_text(), mutants))
        publish(making, folder)
    return folder


def digest_of(mutants: Sequence[Mutant]) -> str:
    """Digest of the mutants and of the code that selects them. The cache folder's name has a digest of the engine."""
    return hashlib.sha256(SWITCH.read_bytes() + repr(mutants).encode()).hexdigest()[:12]


def publish(making: Path, folder: Path) -> None:
    """Rename a complete folder, unless another run has made it."""
    try:
        making.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(making)


def mutated(file: str, text: str, mutants: Sequence[Mutant]) -> str:
    """The text of a file with all its mutants."""
    edits = [edit_of(mutant, n, text) for n, mutant in enumerate(mutants, 1) if mutant.file == file]
    edits.append(Edit(place_of_import(text), place_of_import(text), IMPORT))
    edits.sort(reverse=True)
    for later, earlier in pairwise(edits):
        if earlier.end > later.start:
            raise MutantInvalid(f"two mutants of {file} change the same text: {text[later.start : earlier.end]!r}")
    for edit in edits:
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def place_of_import(text: str) -> int:
    """The place for another import: after the docstring, and after imports from `__future__`."""
    end = 0
    for statement in ast.parse(text).body:
        if not isinstance(statement, ast.Expr) and getattr(statement, "module", "") != "__future__":
            break
        end = statement.end_lineno or 0
    return sum(map(len, text.splitlines(keepends=True)[:end]))


def equal_at_first(one: str, other: str) -> int:
    """The length of the common start of two texts."""
    differing = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


def edit_of(mutant: Mutant, number: int, text: str) -> Edit:
    """The edit of a mutant: only the difference, so that others may change the neighbouring lines.

    Raises MutantInvalid if the old text does not occur exactly once.
    """
    if text.count(mutant.old) != 1:
        raise MutantInvalid(f"{mutant.name}: the text to replace is {text.count(mutant.old)} times in {mutant.file}")
    if ON not in mutant.new:
        raise MutantInvalid(f"{mutant.name}: nothing in the new text switches it on")
    old, new = mutant.old, mutant.new.replace(ON, f"mutant_is({number})")
    before = equal_at_first(old, new)
    behind = equal_at_first(old[before:][::-1], new[before:][::-1])
    start = text.index(old)
    return Edit(start + before, start + len(old) - behind, new[before : len(new) - behind])
