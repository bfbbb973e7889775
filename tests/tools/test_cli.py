"""The command as a user meets it: help, errors, exit codes, JSON."""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import fanin as fanin_package
import fanin_tools
from fanin_nic.engine.jobs import join
from fanin_tools import quantities
from fanin_tools.cli.app import app
from fanin_tools.cli.help import PANELS
from fanin_tools.cli.run import fabric_of_run
from fanin_tools.errors import UsageError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.processes import terminate
from fanin_wire import limits
from tests.fabric.fixtures import Up

FANIN = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()"]


def fanin(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FANIN, *arguments], capture_output=True, text=True)


def words_of(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from words_of(inner, (*path, name))


@pytest.mark.parametrize("words", words_of(typer.main.get_command(app)), ids=" ".join)
def test_help_of_every_command_fits_into_80_columns(words: tuple[str, ...]) -> None:
    """Its text has more than half of the width; the value of an option is one short word."""
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*words, "--help"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if re.search(r"<(bool|str|int|float|path|list)|<=x", line)]
    described = next(line for line in lines if "Show this message" in line)
    assert described.index("Show") <= 40


def test_commands_are_in_groups() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    groups = [line for line in shown.splitlines() if re.fullmatch(r"\S.*:", line)][1:]
    assert [group.rstrip(":") for group in groups] == list(PANELS[:-1])


def test_version_of_the_package() -> None:
    assert fanin_package.__version__ == metadata.version("fanin")


@pytest.mark.process
def test_help_needs_neither_engine_nor_library() -> None:
    """Completion calls the command on every key, so it must not load the compiler."""
    code = "import sys, fanin_tools.cli.app; sys.exit(bool({'numba', 'numpy', 'scapy', 'fanin'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["-n", "1000", "--", "true"], "NO_RESOURCES: 1000 ranks do not fit on the 4 nodes"),
        (["--", "no-such-program"], "NO_PROGRAM: no-such-program can not be started: there is no such program"),
        (["--", __file__], f"NO_PROGRAM: {__file__} can not be started: it is a file of Python; name its "),
        (["--", "/etc/passwd"], "NO_PROGRAM: /etc/passwd can not be started: it is not executable; chmod +x"),
        (["--", "/etc"], "NO_PROGRAM: /etc can not be started: it is a folder"),
        (["--mpi", "--mpirun", "true", "--", "no-such-program"], "NO_PROGRAM: no-such-program can not be started"),
        (["--mpi", "--mpirun", "no-such-launcher", "--", "true"], "NO_PROGRAM: there is no program 'no-such-launcher'"),
        (
            ["--mpi", "--wide", "--prefix", "--mpirun", "true", "--", "true"],
            "INVALID_REQUEST: --wide, --prefix can not be used with --mpi",
        ),
        (["--mpi", "--mpirun", "true '", "--", "true"], 'INVALID_REQUEST: --mpirun "true \'": No closing quotation'),
        (["--mpirun", "true", "--", "true"], "INVALID_REQUEST: --mpirun can not be used without --mpi"),
    ],
)
def test_a_wrong_run_is_refused_before_anything_is_started(arguments: list[str], error: str) -> None:
    result = fanin("run", "--name", "nowhere", *arguments)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"fanin: {error}")


@pytest.mark.parametrize(
    ("arguments", "name", "code"),
    [
        (["demo", "--bytes", "many"], "INVALID_REQUEST", 2),
        (["demo", "--op", "xor"], "INVALID_REQUEST", 2),
        (["demo", "--dtype", "f8"], "INVALID_REQUEST", 2),
        (["demo", "--rate", "1gbit"], "BAD_DESCRIPTION", 2),
        (["fabric", "up", "/no/such.toml"], "NO_DESCRIPTION", 2),
        (["fabric", "up", "--nodes", "65"], "BAD_DESCRIPTION", 2),
        (["fabric", "up", "--name", "../x"], "BAD_DESCRIPTION", 2),
        (["fabric", "down", "--name", "../x"], "BAD_DESCRIPTION", 2),
        (["fabric", "status", "--name", "nowhere"], "NO_FABRIC", 1),
        (["fabric", "restart", "nic0", "--name", "nowhere"], "NO_FABRIC", 1),
        (["fabric", "up", "--detection", "0.01"], "INVALID_REQUEST", 2),
        (["fabric", "up", "/no/such.toml", "--nodes", "8"], "INVALID_REQUEST", 2),
        (["fabric", "up", "--fanout", "2by2"], "INVALID_REQUEST", 2),
        (["fabric", "up", "--fanout", "2x2", "--nodes", "5"], "BAD_DESCRIPTION", 2),
        (["demo", "--slots", "3"], "INVALID_REQUEST", 2),
        (["demo", "--slots", "2"], "INVALID_REQUEST", 2),
        (["sim", "--slots", "2"], "INVALID_REQUEST", 2),
        (["run", "--slots", "5", "true"], "INVALID_REQUEST", 2),
        (["demo", "--reproducible", "often"], "INVALID_REQUEST", 2),
        (["demo", "--route", "mesh"], "INVALID_REQUEST", 2),
        (["demo", "--route", "tree", "--direct"], "NOT_SUPPORTED", 2),
        (["run", "--route", "mesh", "true"], "INVALID_REQUEST", 2),
        (["run", "--bind-to", "socket", "true"], "INVALID_REQUEST", 2),
        (["run", "--bind-to", "core", "--mpi", "true"], "INVALID_REQUEST", 2),
        (["bench", "local", "--bind-to", "socket"], "INVALID_REQUEST", 2),
        (["run", "--reproducible", "yes", "true"], "INVALID_REQUEST", 2),
        (["demo", "--nodes", "0"], "INVALID_REQUEST", 2),
        (["demo", "--nodes", "x"], "INVALID_REQUEST", 2),
        (["demo", "--color", "red"], "INVALID_REQUEST", 2),
        (["fabric", "sideways"], "INVALID_REQUEST", 2),
        (["run"], "INVALID_REQUEST", 2),
    ],
)
def test_error_is_one_line_with_name_and_remedy(state_root: Path, arguments: list[str], name: str, code: int) -> None:
    result = fanin(*arguments, "--json")
    assert result.returncode == code
    assert result.stderr.startswith(f"fanin: {name}: ")
    assert len(result.stderr.splitlines()) == 1
    error = json.loads(result.stdout)["error"]
    assert error["name"] == name
    assert error["cause"]
    assert error["remedy"]


def test_nothing_is_brought_up_for_a_request_that_is_refused(state_root: Path) -> None:
    assert fanin("demo", "--route", "mesh").returncode == 2
    assert not state_root.exists()


def test_options_beside_a_file_are_refused_by_name(state_root: Path) -> None:
    result = fanin("fabric", "up", "lab.toml", "--nodes", "4", "--netns", "--json")
    assert "--nodes, --netns can not be used with a description" in result.stderr


def test_parser_complains_in_one_line_also_without_json(state_root: Path) -> None:
    result = fanin("fabric", "up", "--color", "red")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "fanin: INVALID_REQUEST: No such option: --color; see fanin fabric up --help\n"


@pytest.mark.parametrize(
    ("options", "is_told"),
    [(["python", "-c", "pass"], True), (["-np", "python"], True), (["--color", "--", "true"], False)],
)
def test_the_dashes_are_named_to_who_left_them_out(state_root: Path, options: list[str], is_told: bool) -> None:
    """Without them an option of the program would be one of this command."""
    result = fanin("run", *options)
    assert result.returncode == 2
    hint = "put -- before the program, whose own options follow it: fanin run -n 2 -- PROGRAM; "
    assert result.stderr.endswith(f"; {hint if is_told else ''}see fanin run --help\n")


def test_json_behind_the_dashes_belongs_to_the_program(state_root: Path) -> None:
    result = fanin("run", "--color", "--", "program", "--json")
    assert result.stdout == ""
    assert result.stderr.startswith("fanin: INVALID_REQUEST: ")


@pytest.mark.process
def test_version_names_package_protocol_and_interface() -> None:
    result = fanin("--version")
    assert result.returncode == 0
    assert re.fullmatch(r"fanin (\d\S+|\(not installed\)), wire protocol \d+, host interface \d+\n", result.stdout)


def test_smallest_lease_is_that_of_the_devices() -> None:
    """Parts that do not import each other have the same number."""
    assert limits.MIN_JOB_SLOTS == join.MIN_SLOTS


@pytest.mark.process
def test_without_a_command_the_help_is_shown() -> None:
    result = fanin()
    assert result.returncode == 2
    assert "Usage" in result.stdout + result.stderr
    assert "fanin: " not in result.stderr


STATUS_WITHOUT_JOBS = {"slots": {"leased": 0, "total": 4096}, "jobs": [], "links": {}, "draining": False}


def test_status_table_fits_80_columns_and_cuts_nothing(state_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = STATUS_WITHOUT_JOBS | {
        "counters": {"requests": 8000, "segments": 76543210},
        "slots": {"leased": 256, "total": 4096},
        "jobs": [{}],
        "links": {"a": {"tx_bytes": 1023 << 20, "rx_bytes": 98765}},
        "draining": False,
    }
    rows = [
        {"name": "switch-10-11", "address": "127.77.0.1", "pid": None, "offload": True, "answer": None, "depth": 0},
        {"name": "switch-0", "address": "", "pid": None, "offload": False, "answer": None, "depth": 1},
        {"name": "nic10", "address": "127.177.100.254", "pid": 1234567, "offload": True, "answer": busy, "depth": 2},
    ]
    monkeypatch.setattr("fanin_tools.fabric.lifecycle.status", lambda name: {"name": name, "devices": rows})
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["fabric", "status", "--name", "any"]).stdout
    assert max(map(len, shown.splitlines())) <= 80
    for text in ("127.177.100.254", "8000", "76543210", "1023 MiB", "plain", "gone", " switch-10-11", "     nic10"):
        assert text in shown
    wide = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["fabric", "status", "--name", "any"]).stdout
    for text in ("1234567", "256/4096"):
        assert text in wide


def test_unforeseen_exception_is_a_named_defect(state_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError("by hand")

    monkeypatch.setattr("fanin_tools.fabric.lifecycle.status", broken)
    result = CliRunner().invoke(app, ["fabric", "status", "--name", "any", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["cause"] == "ZeroDivisionError: by hand"
    assert "FANIN_TRACEBACK" in result.stderr


@pytest.mark.process
@pytest.mark.parametrize("module", [[], ["-m"]])
def test_a_clone_called_fanin_beside_a_program_does_not_hide_the_package(tmp_path: Path, module: list[str]) -> None:
    """The folder is searched first: of a program that of its file, with -m the working directory."""
    (tmp_path / "fanin").mkdir()
    (tmp_path / "program.py").write_text("import fanin; print(fanin.Communicator.__name__)\n")
    program = [*module, "program"] if module else ["program.py"]
    result = subprocess.run([sys.executable, *program], cwd=tmp_path, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("Communicator\n", "")


def test_every_part_of_the_command_can_be_imported() -> None:
    """Subcommands import late: a broken import would show only when its command is used."""
    for path in sorted(Path(fanin_tools.__file__).parent.rglob("*.py")):
        relative = path.relative_to(Path(fanin_tools.__file__).parents[1]).with_suffix("")
        importlib.import_module(".".join(relative.parts).removesuffix(".__init__"))


def test_status_without_fabrics_is_an_empty_list(state_root: Path) -> None:
    assert json.loads(fanin("fabric", "status", "--json").stdout) == []


def test_status_fails_by_name_while_a_device_is_gone(up: Up, fabric: Fabric) -> None:
    """The table, or the JSON, is still complete."""
    processes = up(fabric).state.processes()
    well = fanin("fabric", "status", "--fabric", "pair", "--json")
    assert (well.returncode, json.loads(well.stdout)[0]["error"], well.stderr) == (0, None, "")
    terminate([processes["nic1"]], 5)
    shown = fanin("fabric", "status")
    assert shown.returncode == 1
    assert "gone" in shown.stdout
    remedy = "fanin fabric restart nic1 --name pair, or end all its devices: fanin fabric down --name pair"
    assert shown.stderr == f"fanin: DEVICE_LOST: of fabric pair nic1 does not run; {remedy}\n"
    as_json = fanin("fabric", "status", "--name", "pair", "--json")
    (found,) = json.loads(as_json.stdout)
    assert (as_json.returncode, found["error"]["name"], len(found["devices"])) == (1, "DEVICE_LOST", 3)


def test_a_run_is_refused_while_a_device_is_gone(up: Up, fabric: Fabric) -> None:
    terminate([up(fabric).state.processes()["nic1"]], 5)
    result = fanin("run", "--fabric", "pair", "--", "true")
    assert result.returncode == 1
    assert "FABRIC_INCOMPLETE: of fabric pair nic1 does not run, others do" in result.stderr


def test_down_of_nothing_is_no_error(state_root: Path) -> None:
    assert json.loads(fanin("fabric", "down", "--json").stdout) == {"name": "default", "was_present": False}


@pytest.mark.process
def test_doctor_speaks_of_everything_it_looks_at() -> None:
    result = fanin("doctor", "--json")
    findings = {finding["subject"]: finding for finding in json.loads(result.stdout)}
    assert {"python", "numba", "cc", "UDP GSO", "socket buffer", "namespaces", "tshark", "MPI"} <= findings.keys()
    assert findings["python"]["level"] == "ok"
    assert all(finding["remedy"] for finding in findings.values() if finding["level"] not in ("ok", "absent"))
    broken = any(finding["level"] == "broken" for finding in findings.values())
    assert result.returncode == (1 if broken else 0)


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("4097", 4097), ("64K", 65536), ("64M", 64 << 20), ("1GiB", 1 << 30), ("8b", 8)]
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert quantities.parse_size(text) == count


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(1, "NIC", "1 NIC"), (2, "NIC", "2 NICs"), (0, "rank", "0 ranks"), (3, "switch", "3 switches")],
)
def test_counts_have_the_right_ending(count: int, noun: str, text: str) -> None:
    assert quantities.counted(count, noun) == text


@pytest.mark.parametrize("text", ["", "M", "-1", "1.5M", "64X"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        quantities.parse_size(text)


@pytest.mark.parametrize(
    ("ranks", "route", "spread", "nodes"),
    [
        (3, "auto", True, 3),
        (100, "auto", True, 4),
        (3, "auto", False, 1),
        (100, "auto", False, 2),
        (3, "local", True, 1),
    ],
)
def test_fabric_of_a_run_has_as_many_nodes_as_it_should(ranks: int, route: str, spread: bool, nodes: int) -> None:
    """Spread over some nodes; MPI programs get as few as have room."""
    plan = fabric_of_run("absent", False, ranks, route, limits.DEFAULT_DETECTION, spread)
    assert isinstance(plan, Plan)
    assert plan.shape.nodes == nodes
