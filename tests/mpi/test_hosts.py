"""Several hosts: network namespaces with one NIC each below a switch, and each MPI's launcher between them."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanin.mpi import library_path
from fanin_tools.bench import streams
from fanin_tools.bench.peers import PEERS
from fanin_tools.cli.app import app
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import launch_agent
from tests.e2e.fabrics import Bench, counter, statuses
from tests.fabric.fixtures import ignore
from tests.fabric.test_namespaces import needs_namespaces
from tests.mpi.conftest import AS_ROOT, BOUND_S, EVERYTHING, QUIET_WAITING, ROOT, Fabrics, Mpi
from tests.mpi.report import offloaded

HOSTS = 3


@pytest.fixture(scope="module")
def hosts(bench: Bench) -> Running:
    return bench.up(Shape(nodes=HOSTS, ranks_per_node=1, netns=True))


def run(mpi: Mpi, hosts: Running, folder: Path, program: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """One rank on each host. Each gets all sockets, and finds that of its host's NIC."""
    peer = next(peer for peer in PEERS if peer.folder == mpi.family)
    sockets = ":".join(str(hosts.state.socket(nic.name)) for nic in hosts.fabric.nics)
    variables = (
        QUIET_WAITING
        | EVERYTHING
        | {"LD_PRELOAD": str(library_path()), "FANIN_SOCKET": sockets, "FANIN_MPI_REPORT": "1"}
    )
    given = ["env", *(f"{name}={value}" for name, value in variables.items())]
    launcher = [mpi.folder / "bin/mpiexec", "-n", str(HOSTS), *peer.network(hosts.fabric, folder)]
    line = [*launch_agent.inside_first(hosts.fabric), *launcher, *given, *program]
    environment = os.environ | AS_ROOT | {"PATH": f"{mpi.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(line, capture_output=True, text=True, env=environment, timeout=BOUND_S)


@needs_namespaces
def test_ranks_on_three_hosts(mpi: Mpi, hosts: Running, tmp_path: Path) -> None:
    before = counter(statuses(hosts), "rx_CONTRIBUTION")
    ended = run(mpi, hosts, tmp_path, [mpi.build("compare"), "20000"])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"[1-9]\d+ comparisons of each rank, 0 wrong", ended.stdout)
    counts = offloaded(ended.stderr)
    assert len(counts) == 11
    assert not any(left for _, left in counts.values()), ended.stderr
    assert counter(statuses(hosts), "rx_CONTRIBUTION") > before


@needs_namespaces
def test_long_messages_go_on_between_hosts(mpi: Mpi, hosts: Running, tmp_path: Path) -> None:
    """While their sender waits for the devices."""
    ended = run(mpi, hosts, tmp_path, [mpi.build("mixed"), "messages"])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "messages: 0 wrong" in ended.stdout
    assert offloaded(ended.stderr) == {"Allreduce": (HOSTS, 0)}


@needs_namespaces
def test_mpi4py_on_three_hosts(mpi: Mpi, hosts: Running, tmp_path: Path) -> None:
    ended = run(mpi, hosts, tmp_path, ["env", "PYTHONPATH=", *mpi.python(ROOT / "examples/mpi/train.py")])
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "offset 3.0000" in ended.stdout
    assert all(left == 0 < done for done, left in offloaded(ended.stderr).values())


@needs_namespaces
def test_streams_between_hosts(mpi: Mpi, hosts: Running, tmp_path: Path) -> None:
    """`fanin bench streams --nodes`: both contenders are timed, and every call is on the devices."""
    (tmp_path / mpi.family).symlink_to(mpi.folder)
    before = counter(statuses(hosts), "tx_RESULT")
    rows = streams.measure(hosts, tmp_path, [HOSTS], [8], ignore)
    assert len(rows) == 9
    assert all(row.alone > 0 and row.with_fanin > 0 and row.left == "" for row in rows)
    assert counter(statuses(hosts), "tx_RESULT") > before


@needs_namespaces
def test_the_launch_agent_of_a_user_is_that_of_the_tests(hosts: Running, tmp_path: Path) -> None:
    written = launch_agent.write(hosts.fabric, tmp_path / "expected").read_text()
    ended = CliRunner().invoke(
        app, ["mpi-lib", "--launch-agent", str(tmp_path / "agent"), "--fabric", hosts.fabric.name]
    )
    assert ended.exit_code == 0
    assert ended.stdout.strip() == str(library_path())
    assert (tmp_path / "agent").read_text() == written
    assert os.access(tmp_path / "agent", os.X_OK)


def test_a_launch_agent_needs_a_fabric_in_namespaces(fabrics: Fabrics, tmp_path: Path) -> None:
    for name in (fabrics.running.fabric.name, "absent"):
        ended = CliRunner().invoke(app, ["mpi-lib", "--launch-agent", str(tmp_path / "agent"), "--fabric", name])
        assert ended.exit_code == 1
        assert "NO_FABRIC" in ended.stderr
