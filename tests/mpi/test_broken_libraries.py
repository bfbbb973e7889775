"""A shim that computes or moves wrongly is found by the comparison with the MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mpi.broken import build_broken
from tests.mpi.conftest import Fabrics, Mpi
from tests.mpi.report import offloaded
from tests.mpi.test_pieces import LONG

WRONG = {  # file, what stands there, what takes its place
    "last byte of a result": (
        "elements.c",
        "memcpy(block_address(elements, block), memory, bytes)",
        "bytes",
        "bytes - 1",
    ),
    "offsets of blocks": ("elements.c", "item(elements->offsets, block) : 0;", "block)", "0)"),
    "memory of two sides given back by each": ("sides.c", "if (spoiled || side->shared)", " || side->shared", ""),
    "sum for maximum": ("family.c", "{FANIN_OP_MAX, {0x23", "FANIN_OP_MAX", "FANIN_OP_SUM"),
}
WRONG_PIECES = {
    "offsets of pieces": ("pieces.c", "offset = number * pieces->part,", "number * pieces->part", "0"),
    "memories of pieces": (
        "pieces.c",
        "uint8_t *memory = pieces->memory[number % pieces->present]",
        "number % pieces->present",
        "0",
    ),
}


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
@pytest.mark.parametrize("mutant", [*WRONG, *WRONG_PIECES])
def test_wrong_results_are_found(mpi: Mpi, fabrics: Fabrics, tmp_path: Path, mutant: str) -> None:
    longest = LONG if mutant in WRONG_PIECES else "20000"
    broken = build_broken(tmp_path, *(WRONG | WRONG_PIECES)[mutant])
    ended = mpi.run(3, [mpi.build("compare"), longest], fabrics.variables(3, "local", broken))
    assert ended.returncode != 0
    assert " differs" in ended.stderr


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_one_memory_is_enough_for_all_pieces(mpi: Mpi, fabrics: Fabrics, tmp_path: Path) -> None:
    """Of a library that gets no second one."""
    line = "if (!fanin_stand_in(memory))"
    library = build_broken(tmp_path, "pieces.c", line, "(!", "(pieces->present || !")
    ended = mpi.run(3, [mpi.build("compare"), LONG], fabrics.variables(3, "local", library))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " 0 wrong" in ended.stdout
    assert not any(left for _, left in offloaded(ended.stderr).values()), ended.stderr
