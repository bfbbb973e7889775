"""The comparison with the MPI finds a shim that computes or moves wrongly."""

from pathlib import Path

import pytest

from tests.mpi.broken import build_broken
from tests.mpi.conftest import Fabrics, Mpi
from tests.mpi.report import offloaded
from tests.mpi.test_pipelining import LONG

WRONG = {  # file, line, old words, new words
    "last byte of a result": ("mpi/abi/elements.c", "memcpy(address, memory, bytes)", "bytes", "bytes - 1"),
    "offsets of blocks": (
        "mpi/abi/elements.c",
        "item(elements->offsets, block) : block * elements",
        "offsets, block)",
        "offsets, 0)",
    ),
    "own block in place": (
        "mpi/calls/decode_args.c",
        "one.address = shim_block_address(elements, block);",
        "block)",
        "0)",
    ),
    "sum for maximum": ("mpi/abi/mpi_abi.c", "{FANIN_OP_MAX, {0x23", "FANIN_OP_MAX", "FANIN_OP_SUM"),
}
WRONG_PARTS = {
    "offsets of parts": (
        "core/collectives/transfer.c",
        "uint64_t offset = number * message->part,",
        "number * message->part",
        "0",
    ),
    "buffers of parts": (
        "core/collectives/transfer.c",
        "const uint8_t *buffer = place_in_buffer(request, number, &run, message->row->wants);",
        "number",
        "0",
    ),
}


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
@pytest.mark.parametrize("mutant", [*WRONG, *WRONG_PARTS])
def test_wrong_results_are_found(mpi: Mpi, fabrics: Fabrics, tmp_path: Path, mutant: str) -> None:
    longest = LONG if mutant in WRONG_PARTS else "20000"
    broken = build_broken(tmp_path, *(WRONG | WRONG_PARTS)[mutant])
    ended = mpi.run(3, [mpi.build("compare"), longest], fabrics.variables(3, "local", broken))
    assert ended.returncode != 0
    assert " differs" in ended.stderr


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_one_buffer_is_enough_for_all_parts(mpi: Mpi, fabrics: Fabrics, tmp_path: Path) -> None:
    """The library gets no second one."""
    line = "struct bounce_buffer *buffer = fanin_obtain_buffer(request->stream->context, length);"
    one = "request->window_length ? NULL : fanin_obtain_buffer"
    library = build_broken(tmp_path, "core/collectives/prepare.c", line, "fanin_obtain_buffer", one)
    ended = mpi.succeed(3, [mpi.build("compare"), LONG], fabrics.variables(3, "local", library))
    assert " 0 wrong" in ended.stdout
    assert not any(left for _, left in offloaded(ended.stderr).values()), ended.stderr
