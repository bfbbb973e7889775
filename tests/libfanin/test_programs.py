"""Programs in C on real devices: every collective in every form, threads, and failures of ranks."""

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fanin_tools.fabric.lifecycle import Running
from tests.libfanin.conftest import BOUND_S, CROWD, PACKAGE, PROGRAMS, Compiler, Run

ROOT = Path(__file__).parents[2]
SANITIZERS = {"address": "__asan_", "undefined": "__ubsan_", "thread": "__tsan_"}  # symbols that a library needs then
SCENARIOS = {  # what ranks 0, 1 and 2 get
    "killed": ["rank 0: PEER_LOST missing 1", "rank 2: PEER_LOST missing 1"],
    "late": [f"rank {rank}: TIMEOUT missing 1" for rank in range(3)],
    "nothing": [f"rank {rank}: OP_MISMATCH missing" for rank in range(3)],
    "left": ["rank 0: ABORTED missing 1", "rank 2: ABORTED missing 1"],
    "flushed": ["rank 0: FLUSHED missing"],
    "asked": [
        "rank 0: 0 of 1 missing 2",
        *(f"rank {rank}: SUCCESS missing" for rank in range(3)),
        "rank 2: 0 of 1 missing 2",
    ],
    "sizes": [
        "rank 0: OP_MISMATCH missing",
        "rank 0: SUCCESS missing",
        *["rank 1: SUCCESS missing"] * 2,
        *["rank 2: SUCCESS missing"] * 2,
    ],
}


@pytest.mark.parametrize(
    ("fabric", "ranks", "options"),
    [
        ("local", 1, ()),
        ("local", 4, ()),
        ("nodes", 5, ()),
        ("nodes", 4, ("--route", "ring")),
        ("nodes", 3, ("--reproducible", "shape")),
    ],
    ids=["alone", "local", "tree", "ring", "reproducible"],
)
def test_every_collective(compiler: Compiler, run: Run, fabric: str, ranks: int, options: tuple[str, ...]) -> None:
    seed = str(random.randrange(1 << 30))
    print("seed", seed)
    done = run(fabric, ranks, compiler.build(PROGRAMS / "collectives.c"), "40", seed, options=options)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank}: 40 rounds" for rank in range(ranks)]


@pytest.mark.parametrize(
    ("fabric", "ranks", "options"),
    [("local", 3, ()), ("nodes", 3, ("--route", "tree")), ("nodes", 3, ("--route", "ring"))],
    ids=["local", "tree", "ring"],
)
def test_calls_that_look_like_earlier_ones(
    compiler: Compiler, run: Run, fabric: str, ranks: int, options: tuple[str, ...]
) -> None:
    seed = str(random.randrange(1 << 30))
    print("seed", seed)
    done = run(fabric, ranks, compiler.build(PROGRAMS / "same_shape.c"), "2000", seed, options=options)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("fabric", "ranks", "options"),
    [("local", 3, ()), ("nodes", 5, ("--route", "tree")), ("nodes", 5, ("--route", "ring"))],
    ids=["local", "tree", "ring"],
)
def test_what_was_refused_or_has_failed_is_started_again(
    compiler: Compiler, run: Run, fabric: str, ranks: int, options: tuple[str, ...]
) -> None:
    """On the same communicator, in each form; 100 rounds would use up the library's registered memory, if what failed
    kept it."""
    done = run(fabric, ranks, compiler.build(PROGRAMS / "again.c"), "100", options=options)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank}: 100 rounds" for rank in range(ranks)]


def test_programs_load_the_library_that_they_are_to_test(compiler: Compiler) -> None:
    """With a sanitizer in CC it is a library that was built with it."""
    if shutil.which("nm") is None or shutil.which("ldd") is None:
        pytest.skip("nm, ldd")
    listed = subprocess.run(["ldd", compiler.build(PROGRAMS / "shrink.c")], capture_output=True, text=True, check=True)
    loaded = re.findall(r"libfanin\.so => (\S+)", listed.stdout)
    assert len(loaded) == 1, listed.stdout
    needed = subprocess.run(["nm", "--dynamic", loaded[0]], capture_output=True, text=True, check=True).stdout
    sanitizers = [name for name, prefix in SANITIZERS.items() if f" {prefix}" in needed]
    asked = re.search(r"-fsanitize=([\w,]+)", os.environ.get("CC", ""))
    assert sanitizers == (asked[1].split(",") if asked else [])


def test_threads(compiler: Compiler, run: Run) -> None:
    done = run("local", 3, compiler.build(PROGRAMS / "threads.c"), "20")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank}: 0 wrong" for rank in range(3)]


def test_threads_that_leave_jobs(compiler: Compiler, run: Run) -> None:
    done = run("local", 1, compiler.build(PROGRAMS / "leaving.c"), "300")
    assert done.returncode == 0, done.stdout + done.stderr


def test_ranks_that_call_different_things_are_told(compiler: Compiler, run: Run, tmp_path: Path) -> None:
    """Which rank is named depends on the order in which they came."""
    done = run("local", 3, compiler.build(PROGRAMS / "failures.c"), "mismatch", str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^rank (\d): OP_MISMATCH missing [012]", done.stdout, re.M)
    assert sorted(found) == ["0", "1", "2"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_failures(compiler: Compiler, run: Run, scenario: str, tmp_path: Path) -> None:
    done = run("local", 3, compiler.build(PROGRAMS / "failures.c"), scenario, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(SCENARIOS[scenario])


def test_a_failure_is_told_in_words(compiler: Compiler, run: Run, tmp_path: Path) -> None:
    done = run("nodes", 3, compiler.build(PROGRAMS / "failures.c"), "told", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for number, line in zip((0, 2), sorted(done.stdout.splitlines()), strict=True):
        assert re.fullmatch(rf"rank {number}: PEER_LOST: missing: rank 1 \(node [\d.]+\)", line)


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_a_rank_of_another_node_is_named(compiler: Compiler, run: Run, route: str, tmp_path: Path) -> None:
    done = run("nodes", 3, compiler.build(PROGRAMS / "failures.c"), "killed", str(tmp_path), options=("--route", route))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == SCENARIOS["killed"]


@pytest.mark.parametrize(
    ("fabric", "ranks", "dead"),
    [
        ("local", 4, (0,)),
        ("nodes", 5, (3,)),
        ("nodes", 6, (0, 1)),
        ("crowded", 40, (39,)),
        ("uneven", 40, (39,)),
        ("uneven", 40, tuple(range(CROWD))),
    ],
    ids=[
        "the first",
        "of another node",
        "a whole node",
        "more than report at a time",
        "more than a device has jobs for",
        "more than are asked at a time",
    ],
)
def test_survivors_go_on(compiler: Compiler, run: Run, fabric: str, ranks: int, dead: tuple[int, ...]) -> None:
    done = run(fabric, ranks, compiler.build(PROGRAMS / "shrink.c"), "die", *map(str, dead))
    left = [rank for rank in range(ranks) if rank not in dead]
    lines = [f"rank {rank}: {place} of {len(left)}, sum {sum(left)}" for place, rank in enumerate(left)]
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(lines)


@pytest.mark.parametrize(("fabric", "dead"), [("local", 0), ("nodes", 0), ("nodes", 3)])
def test_survivors_go_on_in_a_job_that_has_told_nothing(compiler: Compiler, run: Run, fabric: str, dead: int) -> None:
    """They have learned of the loss in another job of the same ranks."""
    done = run(fabric, 4, compiler.build(PROGRAMS / "shrink.c"), "elsewhere", str(dead))
    left = [rank for rank in range(4) if rank != dead]
    lines = [f"rank {rank}: {place} of 3, sum {sum(left)}" for place, rank in enumerate(left)]
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(lines)


def test_an_agreement_goes_on_when_the_old_job_is_left(compiler: Compiler, run: Run) -> None:
    """It takes nothing from the queues that the old job had."""
    done = run("nodes", 3, compiler.build(PROGRAMS / "shrink.c"), "left")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank}: SUCCESS, sum {rank}" for rank in range(3)]


def test_a_rank_that_misses_the_agreement_is_not_in_it(compiler: Compiler, run: Run) -> None:
    done = run("nodes", 5, compiler.build(PROGRAMS / "shrink.c"), "miss", "4")
    assert done.returncode == 0, done.stderr
    members = [f"rank {rank}: {rank} of 4, sum 6" for rank in range(4)]
    *told, alone = sorted(done.stdout.splitlines(), key=lambda line: "TIMEOUT" in line)
    assert sorted(told) == members
    assert alone.startswith("rank 4: TIMEOUT: no other rank has taken a report: they are lost, have not called, or")


PYTHON_RANK = """
import numpy as np, fanin

with fanin.Communicator() as communicator:
    total = communicator.allreduce(np.full(1000, communicator.rank, np.float32))
print(f"rank {communicator.rank} of {communicator.size}: the sum of the ranks is {total[0]:g}")
"""


def test_ranks_in_python_and_in_c_share_a_job(compiler: Compiler, run: Run, tmp_path: Path) -> None:
    program, script, either = compiler.build(ROOT / "examples/c/allreduce.c"), tmp_path / "rank.py", tmp_path / "rank"
    script.write_text(PYTHON_RANK)
    either.write_text(f"#!/bin/sh\n[ $FANIN_RANK = 1 ] && exec {sys.executable} {script}\nexec {program}\n")
    either.chmod(0o755)
    done = run("nodes", 4, either)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of 4: the sum of the ranks is 6" for rank in range(4)]


def test_a_host_with_two_nics(compiler: Compiler, fabrics: dict[str, Running]) -> None:
    sockets = [str(fabrics["nodes"].state.socket(name)) for name in ("nic0", "nic1")]
    program = compiler.build(PROGRAMS / "two_devices.c")
    done = subprocess.run([program, *sockets, str(random.randrange(1, 1 << 31))], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_ordinary_traffic(compiler: Compiler, fabrics: dict[str, Running]) -> None:
    sockets = [str(fabrics["nodes"].state.socket(name)) for name in ("nic0", "nic1")]
    program = compiler.build(PROGRAMS / "ordinary_traffic.c")
    done = subprocess.run([program, *sockets], capture_output=True, text=True, timeout=BOUND_S)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_a_program_without_a_job_is_told(compiler: Compiler) -> None:
    done = subprocess.run([compiler.build(ROOT / "examples/c/allreduce.c")], capture_output=True, text=True, env={})
    assert done.returncode == 1
    assert done.stderr.startswith("reading the job: INVALID_REQUEST: ")
    assert "the environment lacks FANIN_JOB; start the program with `fanin run" in done.stderr


def test_example(compiler: Compiler, run: Run) -> None:
    done = run("nodes", 3, compiler.build(ROOT / "examples/c/allreduce.c"))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of 3: the sum of the ranks is 3" for rank in range(3)]


def test_example_of_requests(compiler: Compiler, run: Run) -> None:
    done = run("nodes", 4, compiler.build(ROOT / "examples/c/requests.c"))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of 4: the last block has 32 bytes" for rank in range(4)]


def test_pkg_config_knows_the_library(tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", str(PACKAGE / "pkgconfig/fanin.pc")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    target = tmp_path / "allreduce"
    subprocess.run(["cc", str(ROOT / "examples/c/allreduce.c"), "-o", str(target), *flags], check=True)
    assert subprocess.run([target], capture_output=True, env={}).returncode == 1


def test_what_an_order_costs() -> None:
    """The command of docs/collectives.md, with fewer rounds and sizes."""
    command = [sys.executable, "-m", "tests.libfanin.order_cost", "--rounds", "3", "--bytes", "16"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ")[:2] for line in done.stdout.splitlines()[2:]]
    assert [size for _, size in rows] == ["8", "16"] * 4
