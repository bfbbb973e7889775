"""A failed rank, device or job gives the others an error, or the MPI instead, and never a hang."""

import re
from pathlib import Path

import pytest

from fanin.mpi import library_path
from fanin_tools.fabric.generate import Shape
from tests.e2e.fabrics import Bench, pid_of
from tests.mpi.broken import build_broken
from tests.mpi.conftest import Fabrics, Mpi
from tests.mpi.report import offloaded
from tests.waiting import DETECTION_S

CALL_FORMS = ("call", "in place", "wait", "test", "wait for all", "start")
# Launchers end the remaining ranks; MPICH's does by SIGUSR1, even if told not to.
SURVIVED = {"mpich": (["-disable-auto-cleanup"], ["sh", "-c", 'trap "" USR1; "$0" "$@"; true']), "openmpi": ([], [])}
SUM = "20 bytes of i32 by sum, message {} of the communicator"
DIFFERENT_CALLS = {  # calls of each rank, by what differs on rank 1
    "op": [SUM.format(1), SUM.format(1).replace("sum", "max"), SUM.format(1)],
    "after": ["20 bytes of i32 by sum, not done: the communicator failed at message 1"] * 3,
    "type": [SUM.format(0), SUM.format(0).replace("i32", "f32"), SUM.format(0)],
    "count": [SUM.format(0).replace("20", "24"), SUM.format(0), SUM.format(0).replace("20", "24")],
}
WORDS = {("mpich", "wait for all"): "user request query function returned error"}  # MPICH puts its own into a status


def test_a_rank_without_memory_is_an_error_of_all(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.succeed(3, [mpi.build("mixed"), "memory"], fabrics.variables(3, "tree", FANIN_STAGING="10000"))
    assert "memory: 0 wrong" in ended.stdout


def test_no_device_is_one_line_and_no_harm(mpi: Mpi, tmp_path: Path) -> None:
    variables = {"LD_PRELOAD": str(library_path()), "XDG_RUNTIME_DIR": str(tmp_path)}
    ended = mpi.succeed(3, [mpi.build("compare"), "2000"], variables)
    assert ended.stderr.count("fanin: ") == ended.stderr.count("fanin: NO_DEVICE") == 1


def test_fabric_in_namespaces_asks_for_a_launch_agent(mpi: Mpi, tmp_path: Path) -> None:
    """No interface here has its NIC's address."""
    (tmp_path / "fanin" / "default").mkdir(parents=True)
    (tmp_path / "fanin" / "default" / "uplinks").write_text("nic0.sock 10.77.0.1 0 10.77.0.254\n")
    variables = {"LD_PRELOAD": str(library_path()), "XDG_RUNTIME_DIR": str(tmp_path)}
    ended = mpi.succeed(3, [mpi.build("compare"), "2000"], variables)
    assert ended.stderr.count("fanin: ") == ended.stderr.count("fanin mpi-lib --launch-agent") == 1


def test_a_device_that_one_rank_lacks_is_used_by_none(mpi: Mpi, fabrics: Fabrics) -> None:
    variables = fabrics.variables(3, "tree")
    variables["FANIN_SOCKET"] = variables["FANIN_SOCKET"].rpartition(":")[0] + ":/nowhere/nic.sock"
    ended = mpi.succeed(3, [mpi.build("compare"), "2000"], variables)
    assert "fanin: NO_DEVICE: collectives stay with MPI: rank 2" in ended.stderr
    assert offloaded(ended.stderr) == {}


def test_a_job_that_can_not_be_formed_is_left_by_all(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.succeed(3, [mpi.build("compare"), "2000"], fabrics.variables(3, "tree", FANIN_ROUTE="local"))
    said = "fanin: INVALID_REQUEST: a communicator of 3 ranks stays with MPI: rank 0 could not join its job"
    assert ended.stderr.count(said) == 1
    assert all(done == 0 < left for done, left in offloaded(ended.stderr).values())
    assert "REFUSED" in ended.stderr


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_a_job_that_is_refused_to_one_rank_holds_nobody_up(mpi: Mpi, fabrics: Fabrics, tmp_path: Path) -> None:
    """Its device says so at once; the others' devices would wait for it."""
    line, more = "communicator->join.qp = communicator->stream.qp;", "; communicator->join.slots += rank == 1;"
    broken = build_broken(tmp_path, "core/communicator/membership.c", line, ";", more)
    variables = fabrics.variables(3, "tree", broken, FANIN_MPI_JOIN_SECONDS="3600")
    ended = mpi.succeed(3, [mpi.build("compare"), "2000"], variables)
    assert "a communicator of 3 ranks stays with MPI: rank 1 could not join its job" in ended.stderr
    assert all(done == 0 < left for done, left in offloaded(ended.stderr).values())


@pytest.mark.parametrize("form", CALL_FORMS)
def test_a_lost_rank_is_an_error_of_the_others(mpi: Mpi, fabrics: Fabrics, tmp_path: Path, form: str) -> None:
    options, wrapper = SURVIVED[mpi.family]
    command = [*wrapper, mpi.build("mixed"), "loss", tmp_path]
    mpi.run(3, command, fabrics.variables(3, "tree", FORM=form), options)
    said = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(said) == {"rank0", "rank1"}
    words = WORDS.get((mpi.family, form), "MPI_Allreduce on Fanin: PEER_LOST: ")
    assert all(words in text for text in said.values()), said
    if "PEER_LOST" in words:
        assert all("; missing: rank 2 (node " in text for text in said.values()), said


def test_a_rank_lost_in_the_middle_of_a_long_message(mpi: Mpi, fabrics: Fabrics, tmp_path: Path) -> None:
    """It dies copying a part, with others under way. Later failed calls keep no memory of what they copied."""
    options, wrapper = SURVIVED[mpi.family]
    mpi.run(3, [*wrapper, mpi.build("mixed"), "loss in a part", tmp_path], fabrics.variables(3, "tree"), options)
    said = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(said) == {"rank0", "rank1"}
    for text in said.values():
        assert text.startswith("MPI_Allreduce on Fanin: PEER_LOST: 33554432 bytes of f64 by sum, message 1 of the ")
        assert text.endswith("; 0 wrong; kept 0 MiB")


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_a_device_without_a_core_is_left_one(mpi: Mpi, fabrics: Fabrics) -> None:
    command = [mpi.build("mixed"), "starved", str(pid_of(fabrics.running, "nic0"))]
    ended = mpi.succeed(2, command, fabrics.variables(2, "local"))
    assert "starved: 0 wrong" in ended.stdout


def test_a_lost_switch_is_named(mpi: Mpi, bench: Bench) -> None:
    own = Fabrics(bench.up(Shape(3, 1, detection=DETECTION_S)))
    (switch,) = own.running.fabric.switches
    command = [mpi.build("mixed"), "switch", str(pid_of(own.running, switch.name))]
    ended = mpi.succeed(3, command, own.variables(3, "tree"))
    lost = f"; the switch {switch.address} above this node's NIC does not answer, or was restarted; cut off: "
    assert ended.stdout.count("MPI_Allreduce on Fanin: PEER_LOST: 4 bytes of i32 by sum, message ") == 3
    assert ended.stdout.count(lost) == 3


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_a_lost_rank_ends_no_program_that_goes_on_without_it(mpi: Mpi, fabrics: Fabrics, tmp_path: Path) -> None:
    """The MPI reports it where the shim looks at the network for it: the program's error handler decides, not ours."""
    command = [mpi.build("survivors"), tmp_path]
    ended = mpi.run(3, command, fabrics.variables(3, "tree"), ["--with-ft", "ulfm"])
    said = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert said == {"rank0": "3\n", "rank1": "3\n"}, ended.stderr


@pytest.mark.parametrize("way", ["call", "wait", "any", "test"])
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_a_communicator_that_is_revoked(mpi: Mpi, fabrics: Fabrics, tmp_path: Path, way: str) -> None:
    """Ranks that wait in a collective, and those that call the next one, get the MPI's error."""
    ended = mpi.run(3, [mpi.build("revoked"), tmp_path, way], fabrics.variables(3, "tree"), ["--with-ft", "ulfm"])
    said = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert said == dict.fromkeys(("rank0", "rank1", "rank2"), "revoked\nrevoked\nsuccess\n3\n"), ended.stderr


def test_ranks_that_differ_are_told_what_each_has_called(mpi: Mpi, fabrics: Fabrics) -> None:
    ended = mpi.succeed(3, [mpi.build("mixed"), "differ"], fabrics.variables(3, "tree"))
    said = {line.partition(": ")[0]: line.partition(": ")[2] for line in ended.stdout.splitlines()}
    for difference, calls in DIFFERENT_CALLS.items():
        for rank, call in enumerate(calls):
            text = said[f"{difference}, rank {rank}"]
            assert re.fullmatch(
                rf"MPI_\w+ on Fanin: OP_MISMATCH: {call}; noticed at: rank \d \(node [\d.]+\)(\. Make .*)?", text
            )
    assert {said[f"zero, rank {rank}"] for rank in range(3)} == {"no error"}
    for rank in (0, 2):
        assert said[f"some, rank {rank}"].startswith(f"MPI_Allreduce on Fanin: OP_MISMATCH: {SUM.format(4)}")
    for rank in range(3):  # rank 1 had gone on
        assert said[f"later, rank {rank}"].startswith("MPI_Barrier on Fanin: OP_MISMATCH: not done: ")
    assert {said[f"root, rank {rank}"].partition("; ")[0] for rank in (0, 2)} <= {
        "no error",  # it had gone on, and its next call fails
        "MPI_Reduce on Fanin: OP_MISMATCH: 20 bytes of i32 by sum, root 0, message 0 of the communicator",
    }
