"""A rank that wants no result goes on when its data have been taken, and nothing of them is lost."""

import re
from pathlib import Path

import pytest

from tests.libfanin.conftest import PROGRAMS, Compiler, Run

PLACES = [("local", 4, ()), ("nodes", 3, ("--route", "tree")), ("nodes", 3, ("--route", "ring"))]
SCENARIOS = [
    "inline",
    "copied",
    "longest",
    "lying",
    "stream",
    "reduce",
    "requests",
    "persistent",
    "leave",
    "close",
    "left",
    "fence",
]
OUTCOMES = {  # what ranks 0, 1 and 2 print
    "limit": [f"rank {rank}: TIMEOUT" for rank in range(3)],
    "told": ["rank 0: PEER_LOST, flush SUCCESS", "rank 2: PEER_LOST, flush SUCCESS"],
    "flushed": ["rank 0: PEER_LOST", "rank 2: PEER_LOST"],
}


@pytest.mark.parametrize(("fabric", "ranks", "options"), PLACES, ids=["local", "tree", "ring"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_all_get_what_was_taken(
    compiler: Compiler, run: Run, tmp_path: Path, scenario: str, fabric: str, ranks: int, options: tuple[str, ...]
) -> None:
    program = compiler.build(PROGRAMS / "one_way.c")
    done = run(fabric, ranks, program, scenario, str(tmp_path), options=options)
    assert done.returncode == 0, done.stderr


def test_early_data_are_not_taken_for_another_part(compiler: Compiler, run: Run, tmp_path: Path) -> None:
    program = compiler.build(PROGRAMS / "one_way.c")
    done = run("nodes", 6, program, "parts", str(tmp_path), options=("--route", "tree"))
    assert done.returncode == 0, done.stderr


def test_early_data_beside_a_long_message_of_short_blocks(compiler: Compiler, run: Run, tmp_path: Path) -> None:
    done = run("crowded", 32, compiler.build(PROGRAMS / "one_way.c"), "blocks", str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_early_data_are_not_taken_for_a_later_message_of_the_same_number(
    compiler: Compiler, run: Run, tmp_path: Path
) -> None:
    done = run("local", 2, compiler.build(PROGRAMS / "one_way.c"), "counted", str(tmp_path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("scenario", OUTCOMES)
def test_failures_are_told(compiler: Compiler, run: Run, tmp_path: Path, scenario: str) -> None:
    done = run("local", 3, compiler.build(PROGRAMS / "one_way.c"), scenario, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == OUTCOMES[scenario]


@pytest.mark.parametrize(("fabric", "ranks", "options"), PLACES, ids=["local", "tree", "ring"])
def test_killed_root(
    compiler: Compiler, run: Run, tmp_path: Path, fabric: str, ranks: int, options: tuple[str, ...]
) -> None:
    """The others have its data, or the name of an error."""
    done = run(fabric, ranks, compiler.build(PROGRAMS / "one_way.c"), "killed", str(tmp_path), options=options)
    assert sorted(re.findall(r"^rank ([1-9]): (?:SUCCESS|PEER_LOST)$", done.stdout, re.M)) == [
        str(rank) for rank in range(1, ranks)
    ], done.stderr
