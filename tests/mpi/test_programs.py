"""Programs of both MPIs under the shim: results, offloaded calls, and failures."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fanin.mpi import library_path
from tests.mpi.conftest import AS_ROOT, EVERYTHING, FAMILIES, PROGRAMS, QUIET_WAITING, ROOT, Fabrics, Mpi
from tests.mpi.report import offloaded

ROUTES = ("local", "tree", "ring")
SCENES = (
    *("requests", "types", "messages", "many", "ahead", "scatter", "communicators", "threads", "late"),
    *("lookers", "looker", "gaps", "arguments", "fortran", "handlers", "codes"),
)


@pytest.mark.parametrize("route", ROUTES)
def test_every_collective_gives_what_the_mpi_gives(mpi: Mpi, fabrics: Fabrics, route: str) -> None:
    ended = mpi.succeed(3, [mpi.build("compare"), "300000"], fabrics.variables(3, route))
    assert re.search(r"[1-9]\d+ comparisons of each rank, 0 wrong", ended.stdout)
    counts = offloaded(ended.stderr)
    assert len(counts) == 11
    assert all(done for done, _ in counts.values()), ended.stderr
    assert not any(left for _, left in counts.values()), ended.stderr


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_long_messages_and_four_ranks(mpi: Mpi, fabrics: Fabrics) -> None:
    """Most are longer than bounce buffers: parts go through ordinary memory, the rest is read in place."""
    ended = mpi.succeed(4, [mpi.build("compare"), "2000000"], fabrics.variables(4, "tree", FANIN_STAGING="10000"))
    counts = offloaded(ended.stderr)
    assert len(counts) == 11
    assert all(done for done, _ in counts.values()), ended.stderr
    assert not any(left for _, left in counts.values()), ended.stderr


def test_every_form_gives_what_the_mpi_gives(mpi: Mpi, fabrics: Fabrics) -> None:
    """Blocking, non-blocking and persistent, with int and with large counts."""
    ended = mpi.succeed(3, [mpi.build("forms")], fabrics.variables(3, "tree", FANIN_MPI_STRICT="1"))
    assert re.search(r"[1-9]\d+ comparisons of each rank, 0 wrong", ended.stdout)
    counts = offloaded(ended.stderr)
    assert len(counts) == 11
    assert set(counts.values()) == {(3 * 3 * 8, 0)}


def test_nobody_leaves_a_barrier_before_all_have_come(mpi: Mpi, fabrics: Fabrics, tmp_path: Path) -> None:
    ended = mpi.succeed(3, [mpi.build("barrier"), tmp_path / "arrived"], fabrics.variables(3, "tree"))
    assert "barrier: 0 wrong" in ended.stdout
    assert offloaded(ended.stderr) == {"Barrier": (72, 0)}


def test_messages_of_64_mib(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.succeed(3, [mpi.build("long"), str(64 << 20)], fabrics.variables(3, "tree"))
    assert "long: 0 wrong" in ended.stdout
    counts = offloaded(ended.stderr)
    assert len(counts) == 7
    assert set(counts.values()) == {(3, 0)}


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_a_block_of_more_than_2_gib(mpi: Mpi, fabrics: Fabrics) -> None:
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 4 << 30:
        pytest.skip("4 GiB of free memory")
    ended = mpi.succeed(3, [mpi.build("long"), str((2 << 30) + (64 << 20)), "gather"], fabrics.variables(3, "local"))
    assert "long: 0 wrong" in ended.stdout
    assert offloaded(ended.stderr) == {"Gatherv": (3, 0)}


@pytest.mark.parametrize("scene", SCENES)
def test_scenes(mpi: Mpi, fabrics: Fabrics, scene: str) -> None:
    ended = mpi.succeed(4, [mpi.build("mixed"), scene], fabrics.variables(4, "tree", FANIN_MPI_STRICT="1"))
    assert f"{scene}: 0 wrong" in ended.stdout


def test_what_devices_do_not_do_is_left_and_counted(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.succeed(3, [mpi.build("mixed"), "left"], fabrics.variables(3, "tree"))
    assert "INTERCOMM 3" in ended.stderr
    assert "OP 3" in ended.stderr


def test_one_buffer_for_both_is_refused_where_the_mpi_refuses_it(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.succeed(3, [mpi.build("mixed"), "aliases"], fabrics.variables(3, "tree"))
    assert "aliases: 0 wrong" in ended.stdout
    refused = {"mpich": 3, "openmpi": 0}[mpi.family]
    assert offloaded(ended.stderr)["Allreduce"] == (6 - refused, refused)


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)  # Open MPI ends the program by itself
def test_a_communicator_that_is_no_more_is_an_error(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.succeed(3, [mpi.build("mixed"), "freed"], fabrics.variables(3, "tree"))
    assert "freed: 0 wrong" in ended.stdout


def test_counts_of_the_root_hold_nothing_up(mpi: Mpi, fabrics: Fabrics) -> None:
    """They go on while the root waits in the MPI for a message that depends on what follows."""
    ended = mpi.succeed(3, [mpi.build("mixed"), "counts"], fabrics.variables(3, "tree"))
    assert offloaded(ended.stderr) == {"Allreduce": (3, 0), "Gatherv": (3, 0)}


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)  # Open MPI 5 has no such calls
def test_requests_are_looked_at_beside_those_of_the_mpi(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.succeed(3, [mpi.build("mixed"), "look"], fabrics.variables(3, "tree", FANIN_MPI_STRICT="1"))
    assert "look: 0 wrong" in ended.stdout
    assert offloaded(ended.stderr) == {"Allreduce": (6, 0)}


def test_a_freed_communicator_lives_until_its_last_request_is_done(mpi: Mpi, fabrics: Fabrics) -> None:
    """Its queues stay in use until it is done: meanwhile three calls, of 3 ranks each, are not offloaded."""
    ended = mpi.succeed(3, [mpi.build("mixed"), "queues"], fabrics.variables(3, "local"))
    assert "queues: 0 wrong" in ended.stdout
    done, left = offloaded(ended.stderr)["Allreduce"]
    assert (done, left) == (3 * 64, 3 * 3), ended.stderr


def test_a_communicator_asks_again_when_there_was_no_room(mpi: Mpi, fabrics: Fabrics) -> None:
    """After 1,024 calls. Its rank has room for 63 jobs beside MPI_COMM_WORLD's, and makes 70."""
    ended = mpi.succeed(3, [mpi.build("mixed"), "room"], fabrics.variables(3, "local"))
    assert "room: 0 wrong" in ended.stdout
    waiting = 1024 - 2  # without the call that asks, and the first Reduce
    counts = {"Allreduce": (3 * (63 + 1100 - waiting), 3 * (7 + waiting)), "Reduce": (0, 6)}
    assert offloaded(ended.stderr) == counts, ended.stderr
    assert "ORDER 3" in ended.stderr


def test_a_communicator_joins_when_its_calls_are_worth_a_job(mpi: Mpi, fabrics: Fabrics) -> None:
    variables = fabrics.variables(3, "tree", FANIN_MPI_JOIN="auto", FANIN_MPI_STRICT="1")
    ended = mpi.succeed(3, [mpi.build("mixed"), "worth"], variables)
    assert "worth: 0 wrong" in ended.stdout
    left = {"Allreduce": (3 * 6, 3 * 64), "Reduce": (3 * 2, 3 * 4), "Barrier": (0, 3)}
    assert offloaded(ended.stderr) == left, ended.stderr


@pytest.mark.parametrize(("join", "left"), [("early", 0), ("auto", 70), ("late", 70)])
def test_any_blocking_call_joins_after_nonblocking_ones(mpi: Mpi, fabrics: Fabrics, join: str, left: int) -> None:
    """MPI_COMM_WORLD joins as other communicators do, even in a call that itself stays with the MPI."""
    variables = fabrics.variables(3, "tree", FANIN_MPI_JOIN=join, FANIN_MPI_THRESHOLDS="all=0-, barrier=off")
    ended = mpi.succeed(3, [mpi.build("mixed"), "between"], variables)
    assert "between: 0 wrong" in ended.stdout
    assert offloaded(ended.stderr) == {"Allreduce": (3 * (75 - left), 3 * left), "Barrier": (0, 3)}, ended.stderr


@pytest.mark.parametrize(
    ("join", "done", "reason"), [("early", 6, ""), ("late", 0, "NOT_JOINED"), ("auto", 0, "FEW_CALLS")]
)
def test_communicators_join_when_the_user_says(mpi: Mpi, fabrics: Fabrics, join: str, done: int, reason: str) -> None:
    """Their non-blocking calls are offloaded only if they join when they are made."""
    ended = mpi.succeed(3, [mpi.build("mixed"), "nonblocking"], fabrics.variables(3, "tree", FANIN_MPI_JOIN=join))
    assert offloaded(ended.stderr) == {"Barrier": (done, 6 - done)}, ended.stderr
    assert not reason or f"{reason} 6" in ended.stderr


def test_strict_makes_that_an_error(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.run(3, [mpi.build("mixed"), "left"], fabrics.variables(3, "tree", FANIN_MPI_STRICT="1"))
    assert ended.returncode != 0
    assert "fanin: STRICT: MPI_Allreduce is not offloaded" in ended.stderr


def test_strict_is_what_rank_0_says_without_devices_too(mpi: Mpi, tmp_path: Path) -> None:
    others = "test ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} = 0 || unset FANIN_MPI_STRICT; exec $0 refused"
    variables = {"LD_PRELOAD": str(library_path()), "XDG_RUNTIME_DIR": str(tmp_path), "FANIN_MPI_STRICT": "1"}
    ended = mpi.succeed(3, ["sh", "-c", others, mpi.build("mixed")], variables)
    assert "refused: 0 wrong" in ended.stdout


def test_thresholds_leave_sizes_to_the_mpi(mpi: Mpi, fabrics: Fabrics) -> None:
    variables = fabrics.variables(3, "tree", FANIN_MPI_THRESHOLDS="all=0-, allreduce=1k-16k")
    ended = mpi.succeed(3, [mpi.build("compare"), "20000"], variables)
    counts = offloaded(ended.stderr)
    assert min(counts["Allreduce"]) > 0
    assert counts["Bcast"][1] == 0


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("FANIN_MPI_JOIN_SECONDS", str(2**32 // 1000 + 1), "is 4294968, so 60 is taken; write a number up to 4294967"),
        ("FANIN_MPI_SLOTS", "7", "is 7, so 256 is taken; write a power of two, at least 4"),
        ("FANIN_MPI_REPORT", "yes", "is yes, so 1 is taken; write a number"),
        ("FANIN_MPI_STRICT", "yes", "is yes, so 0 is taken; write a number"),
        ("FANIN_ORDER", "bits", "is bits, so rank is taken; write arrival or rank"),
        ("FANIN_ROUTE", "bar", "is bar, so auto is taken; write tree, ring, local or auto"),
        ("FANIN_SWITCHES", "10.0.0", "is 10.0.0, FANIN_RING not set: '10.0.0' is not an IPv4 address; write addresses"),
        ("FANIN_MPI_THRESHOLDS", "foo", "can not be read from foo on"),
        ("FANIN_MPI_THRESHOLD", "all=0-", "is unknown; after FANIN_MPI_ write JOIN, JOIN_SECONDS, REPORT"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_by_name(
    mpi: Mpi, fabrics: Fabrics, name: str, value: str, words: str
) -> None:
    ended = mpi.succeed(3, [mpi.build("mixed"), "messages"], fabrics.variables(3, "local") | {name: value})
    assert f"fanin: BAD_SETTING: {name} {words}" in ended.stderr
    if name != "FANIN_MPI_THRESHOLDS":
        assert offloaded(ended.stderr) == {"Allreduce": (3, 0)}


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_a_socket_that_is_not_there_is_named(mpi: Mpi, fabrics: Fabrics) -> None:
    variables = fabrics.variables(2, "local") | {"FANIN_SOCKET": "/no/such.sock"}
    ended = mpi.succeed(2, [mpi.build("mixed"), "messages"], variables)
    assert "NO_DEVICE: collectives stay with MPI: no device listens at FANIN_SOCKET, /no/such.sock" in ended.stderr


def test_what_a_call_costs_that_is_left_can_be_measured(mpi: Mpi, fabrics: Fabrics) -> None:
    """Both figures of each call; no test checks how large they are."""
    ended = mpi.succeed(2, [mpi.build("cost"), "1"], fabrics.variables(2, "local", FANIN_MPI_THRESHOLDS="all=off"))
    assert len(re.findall(r"^\w+ of .*: \d+ ns, \d+ without, -?\d+ more$", ended.stdout, re.M)) == 3
    assert offloaded(ended.stderr) == {"Allreduce": (0, 8000), "Bcast": (0, 4000)}


def test_fanin_run_starts_it(mpi: Mpi, fabrics: Fabrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the fabric that is up; the exit code is the program's."""
    for name, value in (AS_ROOT | QUIET_WAITING | EVERYTHING).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FANIN_MPI_REPORT", "1")
    launcher = shlex.join([str(mpi.folder / "bin/mpiexec"), *FAMILIES[mpi.family]])
    line = ["run", "--mpi", "--fabric", fabrics.running.fabric.name, "-n", "3", "--mpirun", launcher, "--"]
    command = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()", *line]
    ended = subprocess.run([*command, mpi.build("mixed"), "messages"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "messages: 0 wrong" in ended.stdout
    assert offloaded(ended.stderr) == {"Allreduce": (3, 0)}


def test_mpi4py_runs_under_it(mpi: Mpi, fabrics: Fabrics) -> None:
    """The example of a training loop, as a user runs it."""
    program = mpi.python(ROOT / "examples/mpi/train.py")
    ended = mpi.succeed(3, program, fabrics.variables(3, "ring", PYTHONPATH=""))
    assert "offset 3.0000" in ended.stdout
    assert offloaded(ended.stderr) == {"Allreduce": (360, 0), "Reduce": (3, 0), "Bcast": (3, 0)}


def test_every_program_is_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert [path.stem for path in PROGRAMS.glob("*.c") if f'"{path.stem}' not in tests] == []
