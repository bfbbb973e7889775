"""Which sizes are offloaded by default, by a file of `fanin tune`, and by FANIN_MPI_THRESHOLDS."""

import json
import os
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from fanin_tools.fabric.generate import Shape
from tests.e2e.fabrics import Bench
from tests.mpi.conftest import AS_ROOT, FAMILIES, QUIET_WAITING, Fabrics, Mpi
from tests.mpi.report import offloaded

NAMES = {"openmpi": "open-mpi", "mpich": "mpich"}


def counts(mpi: Mpi, fabrics: Fabrics, thresholds: str, ranks: int = 3, route: str = "tree", **more: str) -> set[str]:
    """The functions with offloaded calls, of a program that calls each with many sizes."""
    variables = fabrics.variables(ranks, route, FANIN_MPI_THRESHOLDS=thresholds, **more)
    ended = mpi.succeed(ranks, [mpi.build("compare"), "300"], variables)
    assert "BAD_SETTING" not in ended.stderr
    return {name for name, (done, _) in offloaded(ended.stderr).items() if done}


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
@pytest.mark.parametrize("ranks", [2, 3])
def test_group_for_more_ranks_than_cpus(mpi: Mpi, fabrics: Fabrics, ranks: int) -> None:
    thresholds = "all=off, bcast=0-; crowded: bcast=off, reduce=0-"
    is_crowded = ranks > os.sysconf("SC_NPROCESSORS_ONLN")
    assert counts(mpi, fabrics, thresholds, ranks) == {"Reduce" if is_crowded else "Bcast"}


@pytest.mark.parametrize(
    ("thresholds", "found"),
    [
        ("all=off, bcast=0-", {"Bcast"}),
        ("all=off; tree: bcast=0-; ring: reduce=0-; local: gather=0-", {"Bcast"}),
        ("all=off; 3: bcast=0-; 4: reduce=0-", {"Bcast"}),
        ("all=off; tree 2: bcast=0-  # a comment; gather=0-\ntree 3: bcast=off, reduce=0-", {"Reduce"}),
        ("all=off; FAMILY tree 3: bcast=0-; OTHER tree 3: reduce=0-", {"Bcast"}),
    ],
)
def test_groups_hold_for_an_mpi_a_route_and_a_number_of_ranks(
    mpi: Mpi, fabrics: Fabrics, thresholds: str, found: set[str]
) -> None:
    other = NAMES["mpich" if mpi.family == "openmpi" else "openmpi"]
    assert counts(mpi, fabrics, thresholds.replace("FAMILY", NAMES[mpi.family]).replace("OTHER", other)) == found


def test_below_one_device_the_route_is_known_before_a_communicator_joins(mpi: Mpi, fabrics: Fabrics) -> None:
    """No job is formed for what only another route would do faster: its calls do not count."""
    variables = fabrics.variables(3, "local", FANIN_MPI_THRESHOLDS="all=off; tree: all=0-", FANIN_MPI_JOIN="auto")
    ended = mpi.succeed(3, [mpi.build("mixed"), "worth"], variables)
    assert offloaded(ended.stderr) == {"Allreduce": (0, 3 * 70), "Reduce": (0, 3 * 6), "Barrier": (0, 3)}
    assert "THRESHOLD" in ended.stderr
    assert "FEW_CALLS" not in ended.stderr


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_route_of_a_communicator_that_joins_late_counts(mpi: Mpi, fabrics: Fabrics) -> None:
    for tree in ("tree", "one-host tree", "tree one-host 3"):
        thresholds = f"all=off; ring: bcast=0-; {tree}: reduce=0-"
        assert counts(mpi, fabrics, thresholds, FANIN_MPI_JOIN="late") == {"Reduce"}


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_ranks_in_a_ring_below_a_tree_agree_with_those_in_none(mpi: Mpi, bench: Bench) -> None:
    """Two nodes of one plain switch, in a ring, and one of another: the job's route is the tree."""
    rings = Fabrics(bench.up(Shape(nodes=4, ranks_per_node=1, fanout=(2, 2), plain_leaves=True)))
    assert counts(mpi, rings, "all=off; ring: bcast=0-; tree: reduce=0-") == {"Reduce"}


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_file_of_this_machine_holds_where_the_setting_is_silent(mpi: Mpi, fabrics: Fabrics, tmp_path: Path) -> None:
    (tmp_path / "fanin").mkdir()
    (tmp_path / "fanin/mpi-thresholds").write_text("# measured\nmpich tree 2: all=off, bcast=0-, reduce=0-\n")
    assert counts(mpi, fabrics, "", XDG_CONFIG_HOME=str(tmp_path)) == {"Bcast", "Reduce"}
    assert counts(mpi, fabrics, "reduce=off", XDG_CONFIG_HOME=str(tmp_path)) == {"Bcast"}


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
@pytest.mark.parametrize(
    "wrong", ["tree x: all=off", "all", "bcast=4-2k-", "a: b: all=off", "bcast=4q", "bcast=2m-4k", "#" * 7001]
)
def test_file_that_can_not_be_read_is_named(mpi: Mpi, fabrics: Fabrics, tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "fanin/mpi-thresholds"
    path.parent.mkdir()
    path.write_text(wrong)
    variables = fabrics.variables(2, "local", FANIN_MPI_THRESHOLDS="all=0-", XDG_CONFIG_HOME=str(tmp_path))
    ended = mpi.succeed(2, [mpi.build("mixed"), "messages"], variables)
    assert (
        f"fanin: BAD_SETTING: {path} {'is longer than 7000' if len(wrong) > 7000 else 'can not be read from '}"
        in ended.stderr
    )
    assert offloaded(ended.stderr) == {"Allreduce": (2, 0)}


def test_short_calls_are_left_to_the_mpi_by_default(mpi: Mpi, fabrics: Fabrics, tmp_path: Path) -> None:
    assert "Bcast" not in counts(mpi, fabrics, "", ranks=2, route="local", XDG_CONFIG_HOME=str(tmp_path))


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
@pytest.mark.parametrize(("thresholds", "done"), [("bcast=0-", 1), ("all=off, bcast=0-", 1), ("all=0-", 2)])
def test_long_requests_are_left_to_the_mpi_by_default(
    mpi: Mpi, fabrics: Fabrics, tmp_path: Path, thresholds: str, done: int
) -> None:
    """A broadcast, blocking and non-blocking."""
    more = {"FANIN_MPI_THRESHOLDS": thresholds, "XDG_CONFIG_HOME": str(tmp_path)}
    ended = mpi.run(2, [mpi.build("long_requests")], fabrics.variables(2, "local", **more))
    assert ended.returncode == 0, ended.stderr
    assert offloaded(ended.stderr) == {"Bcast": (2 * done, 2 * (2 - done))}


def test_tune_measures_and_keeps(mpi: Mpi, fabrics: Fabrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (AS_ROOT | QUIET_WAITING | {"XDG_CONFIG_HOME": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    kept = tmp_path / "fanin/mpi-thresholds"
    kept.parent.mkdir()
    kept.write_text(f"{NAMES[mpi.family]} local 2: all=0-\n{NAMES[mpi.family]} tree 2: all=off\n")
    launcher = shlex.join([str(mpi.folder / "bin/mpiexec"), *FAMILIES[mpi.family]])
    line = ["tune", "--fabric", fabrics.running.fabric.name, "-n", "2", "--mpirun", launcher, "--json"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.stderr
    ((head, thresholds),) = json.loads(result.stdout)["thresholds"].items()
    assert head == f"{NAMES[mpi.family]} local 2"
    assert thresholds.startswith("all=off")
    assert kept.read_text() == f"{head}: {thresholds}\n{NAMES[mpi.family]} tree 2: all=off\n"


@pytest.mark.parametrize("mpi", ["mpich"], indirect=True)
def test_tune_of_a_program_without_mpi_is_told(mpi: Mpi, fabrics: Fabrics) -> None:
    line = ["tune", "--fabric", fabrics.running.fabric.name, "-n", "2", "--mpirun", str(mpi.folder / "bin/mpiexec")]
    result = CliRunner().invoke(app, [*line, "--", "sleep", "1"])  # MPICH's launcher has failed if it ends at once
    assert result.exit_code == 1
    assert "NOT_SUPPORTED: sleep has taken no measurements" in result.stderr
