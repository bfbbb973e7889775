"""Without the library in some ranks all collectives stay with the MPI, with a message. Nothing hangs silently."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from fanin.mpi import library_path
from fanin_tools.fabric.lifecycle import Running
from tests.fabric.test_namespaces import needs_namespaces
from tests.mpi.conftest import AS_ROOT, BOUND_S, FAMILIES, PEERS, Fabrics, Mpi
from tests.mpi.report import offloaded
from tests.mpi.test_hosts import hosts, run
from tests.mpi.test_idle import PROGRAM, DebianMpi, debian_mpi

__all__ = ["debian_mpi", "hosts"]  # fixtures

RANKS = 3
# A rank without the library, as in a part of `mpirun ... : ...` without LD_PRELOAD, or if a launcher clears it
WITHOUT = ["sh", "-c", '[ "$PMI_RANK$OMPI_COMM_WORLD_RANK" = "$0" ] && unset LD_PRELOAD; exec "$@"']


def absent(errors: str) -> list[str]:
    """The ranks that lines name as those without the library."""
    return re.findall(r"NOT_EVERYWHERE: collectives stay with MPI: rank (\d+) runs without", errors)


@pytest.mark.parametrize("rank", ["0", "2"])
def test_a_rank_without_the_library_is_named(mpi: Mpi, fabrics: Fabrics, rank: str) -> None:
    """Its results are right, with all that the other ranks would offload. No rank is named if all have the library."""
    command = [mpi.build("compare"), "5000"]
    for words, named in (([*WITHOUT, rank, *command], [rank]), (command, [])):
        ended = mpi.succeed(RANKS, words, fabrics.variables(RANKS, "local"))
        assert re.search(r"[1-9]\d+ comparisons of each rank, 0 wrong", ended.stdout)
        assert absent(ended.stderr) == named
        assert bool(offloaded(ended.stderr)) == (not named)


def test_a_rank_without_the_library_with_the_mpi_of_debian(debian_mpi: DebianMpi) -> None:
    program = debian_mpi.build(PROGRAM)
    ended = debian_mpi.run(Path(WITHOUT[0]), *WITHOUT[1:], "1", str(program), "3")
    assert absent(ended.stderr) == ["1"]
    ended = debian_mpi.run(Path(WITHOUT[0]), *WITHOUT[1:], "1", str(program), "3", FANIN_MPI_REPORT="0")
    assert "fanin: " not in ended.stderr


@needs_namespaces
def test_a_host_without_the_library_is_named(mpi: Mpi, hosts: Running, tmp_path: Path) -> None:
    command = [mpi.build("compare"), "5000"]
    ended = run(mpi, hosts, tmp_path, [*WITHOUT, "1", *command])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert absent(ended.stderr) == ["1"]


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)  # MPICH 5 says itself that this is not its launcher
def test_the_launcher_of_another_mpi_is_named(mpi: Mpi) -> None:
    """It starts as many programs of one rank, which would end silently."""
    (other,) = set(FAMILIES) - {mpi.family}
    line = [PEERS / other / "bin/mpiexec", *FAMILIES[other], "-n", "2", "env", f"LD_PRELOAD={library_path()}"]
    ended = subprocess.run(
        [*line, mpi.build("begin"), "alone"], capture_output=True, text=True, env=os.environ | AS_ROOT, timeout=BOUND_S
    )
    assert ended.stdout.count("alone: the sum is 1") == 2
    assert ended.stderr.count("fanin: WRONG_LAUNCHER: each of the 2 ranks runs alone") == 1
    inside = os.environ | AS_ROOT | {"PMI_SIZE": "2", "PMI_RANK": "0"}  # a job of its own launcher in one of the other
    line[0] = mpi.folder / "bin/mpiexec"
    line[line.index("-n") + 1] = "1"
    ended = subprocess.run(
        [*line, mpi.build("begin"), "alone"], capture_output=True, text=True, env=inside, timeout=BOUND_S
    )
    assert (ended.stdout, ended.stderr) == ("alone: the sum is 1\n", "")


@pytest.mark.parametrize("scene", ["signals", "session", "function"])
def test_nothing_else_is_in_the_way(mpi: Mpi, fabrics: Fabrics, scene: str) -> None:
    """The ranks' messages to the launcher survive signals, and come in time even if a session comes before MPI_Init."""
    ended = mpi.succeed(RANKS, [mpi.build("begin"), scene], fabrics.variables(RANKS, "local"))
    assert ended.stdout == f"{scene}: the sum is {RANKS}\n"
    assert "NOT_EVERYWHERE" not in ended.stderr


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)  # Open MPI has no such launcher
def test_a_launcher_that_does_not_tell(mpi: Mpi) -> None:
    """All ranks need the library then. One that waits for the others says why."""
    launcher, program = mpi.folder / "bin/mpiexec.gforker", mpi.build("compare")
    preloaded = ["env", f"LD_PRELOAD={library_path()}", program, "100"]
    both = subprocess.run([launcher, "-n", "2", *preloaded], capture_output=True, text=True, timeout=BOUND_S)
    assert both.returncode == 0
    assert "NOT_EVERYWHERE" not in both.stderr
    line = [launcher, "-n", "1", *preloaded, ":", "-n", "1", program, "100"]
    environment = os.environ | AS_ROOT
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True) as one:
        try:
            assert one.stderr is not None
            assert "NOT_EVERYWHERE: this rank has waited for 10 s in MPI_Init" in one.stderr.readline()
        finally:
            os.killpg(one.pid, signal.SIGKILL)
