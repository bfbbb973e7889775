"""Debian's Open MPI 4.1: several hosts by a launch agent, and the message of a rank without a NIC."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fanin.mpi import library_path
from fanin_tools.fabric.generate import Shape
from fanin_tools.launch import launch_agent
from tests.e2e.fabrics import Bench
from tests.fabric.test_namespaces import needs_namespaces
from tests.mpi.conftest import AS_ROOT, BOUND_S, EVERYTHING, PLAIN_MPI, PROGRAMS, Fabrics

LAUNCHER, COMPILER = "mpirun.openmpi", "mpicc.openmpi"
needs_open_mpi = pytest.mark.skipif(
    shutil.which(LAUNCHER) is None or shutil.which(COMPILER) is None,
    reason="Open MPI of Debian (Debian: libopenmpi-dev openmpi-bin)",
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """One that finds wrong elements."""
    subprocess.run([COMPILER, f"-I{PLAIN_MPI}", PROGRAMS / "compare.c", "-o", tmp_path / "compare", "-lm"], check=True)
    return tmp_path / "compare"


def run(line: list[str | Path], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | AS_ROOT | EVERYTHING | variables
    return subprocess.run(line, capture_output=True, text=True, env=environment, timeout=BOUND_S)


@needs_open_mpi
@needs_namespaces
def test_several_hosts_by_a_launch_agent(bench: Bench, program: Path, tmp_path: Path) -> None:
    """The command of docs/mpi.md."""
    hosts = bench.up(Shape(nodes=3, ranks_per_node=1, netns=True))
    agent = launch_agent.write(hosts.fabric, tmp_path / "agent")
    addresses = [nic.address for nic in hosts.fabric.nics]
    sockets = ":".join(str(hosts.state.socket(nic.name)) for nic in hosts.fabric.nics)
    ranks = ["env", f"LD_PRELOAD={library_path()}", f"FANIN_SOCKET={sockets}", "FANIN_MPI_REPORT=1", program, "20000"]
    launcher = [LAUNCHER, "-n", "3", "--host", ",".join(addresses), "--bind-to", "none"]
    passed = [word for name in EVERYTHING for word in ("-x", name)]
    line = [*launch_agent.inside_first(hosts.fabric), *launcher, *passed, "--mca", "plm_rsh_agent", agent, *ranks]
    ended = run(line)
    assert re.search(r"[1-9]\d+ comparisons of each rank, 0 wrong", ended.stdout), ended.stdout + ended.stderr
    (path,) = re.findall(r"fanin: MPI_COMM_WORLD: (.*)", ended.stderr)
    (switch,) = hosts.fabric.switches
    assert path.startswith(
        f"route tree, 3 NICs: {', '.join(addresses)} below switch {switch.address}; segments of 4096"
    )


@needs_open_mpi
def test_fabric_of_another_name_is_named(fabrics: Fabrics, program: Path) -> None:
    """No fabric 'default' is up, but another: "bring one up" would be no remedy."""
    line: list[str | Path] = [
        LAUNCHER,
        "-n",
        "2",
        "--oversubscribe",
        "env",
        f"LD_PRELOAD={library_path()}",
        program,
        "20",
    ]
    running = fabrics.running
    sockets = ":".join(str(running.state.socket(nic.name)) for nic in running.fabric.nics)
    told = f"NO_DEVICE: .* up are '{running.fabric.name}' \\(FANIN_SOCKET={re.escape(sockets)}\\)"
    assert re.search(told, run(line).stderr)
    named = run(line, FANIN_SOCKET=sockets, FANIN_MPI_REPORT="1").stderr
    assert "NO_DEVICE" not in named
    assert "MPI_COMM_WORLD: route ring, 2 NICs" in named or "MPI_COMM_WORLD: route tree, 2 NICs" in named
