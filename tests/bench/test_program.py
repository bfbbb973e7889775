"""`fanin bench program`: the order of runs, what is said of a failed run, and the command with a fake launcher."""

import json
import os
import statistics
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fanin.mpi import library_path
from fanin_tools.bench import mpi_shim, program
from fanin_tools.bench.mpi_shim import Calls
from fanin_tools.bench.program import Commands
from fanin_tools.bench.program_output import NO_DIFFERENCE, Difference
from fanin_tools.cli.app import app
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric import state
from fanin_tools.fabric.description import Fabric
from tests.fabric.fixtures import Up, ignore

REPORT = """fanin: BAD_SETTING: FANIN_MPI_SLOTS is 3, so 256 is taken; write a power of two, at least 4
a line of the program
fanin: calls of all ranks        offloaded            bytes  left to MPI  why
fanin: Allreduce                         4               32           12  OP 2 THRESHOLD 10
fanin: Barrier                           8                0            0
fanin: OP: the program's own operation, or one that devices do not compute
fanin: THRESHOLD: the MPI is faster, by the thresholds (FANIN_MPI_THRESHOLDS, fanin tune)
"""
LAUNCHER = """#!/bin/sh
# an mpirun of one process
shift 2
exec "$@"
"""
WITH_SHIM = 'case "$LD_PRELOAD" in *libfanin_mpi*) true;; *) false;; esac'


def commands(folder: Path, plain: str, with_fanin: str, limit: float = 20) -> Commands:
    return Commands(["sh", "-c", plain], ["sh", "-c", with_fanin], folder, limit)


@pytest.mark.process
def test_both_take_turns_at_being_first(tmp_path: Path) -> None:
    lines: list[str] = []
    found = program.measure(
        commands(tmp_path, "echo plain >> order", "echo shim >> order; sleep 0.05"), 3, lines.append
    )
    assert (tmp_path / "order").read_text().split() == ["plain", "shim", "shim", "plain", "plain", "shim"]
    assert (len(found.plain), len(found.with_fanin)) == (3, 3)
    assert min(found.with_fanin) >= 0.05
    faster = [ours < theirs for ours, theirs in zip(found.with_fanin, found.plain, strict=True)]
    assert found.faster_turns == sum(faster)  # any, on a busy machine
    assert found.ratio == statistics.median(found.with_fanin) / statistics.median(found.plain)
    assert found.calls is None
    assert [line.partition(":")[0] for line in lines] == ["turn 1 of 3", "turn 2 of 3", "turn 3 of 3"]


@pytest.mark.process
def test_the_output_of_all_runs_is_compared_with_that_of_the_first(tmp_path: Path) -> None:
    counting = "echo x >> runs; echo run $(wc -l < runs)"
    steady = program.measure(commands(tmp_path, "echo 1.5", "echo 1.6; echo more >&2"), 2, ignore)
    assert (steady.output, steady.plain_output) == (Difference(1, 0), NO_DIFFERENCE)
    varying = program.measure(commands(tmp_path, counting, "echo run 1"), 2, ignore)
    assert (varying.output, varying.plain_output) == (NO_DIFFERENCE, Difference(1, 1))


@pytest.mark.process
def test_calls_and_warnings_are_those_of_the_shim(tmp_path: Path) -> None:
    (tmp_path / "report").write_text(REPORT)
    found = program.measure(commands(tmp_path, "true", "cat report >&2"), 2, ignore)
    assert found.calls == [Calls("Allreduce", 4, {"OP": 2, "THRESHOLD": 10}), Calls("Barrier", 8, {})]
    assert found.warnings == ["BAD_SETTING: FANIN_MPI_SLOTS is 3, so 256 is taken; write a power of two, at least 4"]


def test_reports_of_several_programs_add_up() -> None:
    assert mpi_shim.calls(2 * REPORT) == [Calls("Allreduce", 8, {"OP": 4, "THRESHOLD": 20}), Calls("Barrier", 16, {})]
    assert mpi_shim.calls("fanin: BAD_SETTING: x\n") is None


@pytest.mark.process
@pytest.mark.parametrize(
    ("plain", "with_fanin", "cause"),
    [
        ("echo a; echo --- b >&2; exit 3", "true", "plain, turn 1: ended with exit code 3: a: b"),
        ("true", "exit 7", "with Fanin, turn 1: ended with exit code 7"),
        ("true", "kill -SEGV $$", "with Fanin, turn 1: ended with SIGSEGV"),
        ("true", "test ! -e x || exit 1; touch x", "with Fanin, turn 2: ended with exit code 1"),
    ],
)
def test_a_run_that_fails_is_named(tmp_path: Path, plain: str, with_fanin: str, cause: str) -> None:
    with pytest.raises(ToolError) as caught:
        program.measure(commands(tmp_path, plain, with_fanin), 3, ignore)
    assert (caught.value.name, caught.value.cause) == ("PROGRAM_FAILED", cause)


@pytest.mark.process
def test_only_the_last_words_are_told(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        program.measure(commands(tmp_path, "seq 1000; exit 1", "true"), 1, ignore)
    assert "exit code 1: ... 8" in caught.value.cause
    assert caught.value.cause.endswith(" 999 1000")


def _runs(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.process
@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "])
def test_a_run_that_takes_too_long_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stubborn: str
) -> None:
    monkeypatch.setattr(program, "TERMINATE_SECONDS", 0.3)
    slow = f"{stubborn}sleep 60 & echo $! > child; echo busy; wait; wait"
    with pytest.raises(ToolError) as caught:
        program.measure(commands(tmp_path, "true", slow, limit=0.5), 1, ignore)
    assert (caught.value.name, caught.value.cause) == ("TIMEOUT", "with Fanin, turn 1: still running after 0.5 s: busy")
    child = int((tmp_path / "child").read_text())
    killed = time.monotonic()
    while _runs(child) and time.monotonic() - killed < 30:  # killed, but perhaps not yet gone
        time.sleep(0.01)
    assert not _runs(child)


@pytest.mark.process
def test_a_launcher_that_can_not_be_started_is_named(tmp_path: Path) -> None:
    (tmp_path / "launcher").write_bytes(b"\0")
    (tmp_path / "launcher").chmod(0o755)
    with pytest.raises(UsageError, match="launcher can not be started: Exec format error"):
        program.measure(Commands([str(tmp_path / "launcher")], ["true"], tmp_path, 1), 1, ignore)


@pytest.mark.parametrize("other", ["", "/lib/other.so:", "other.so "])
def test_a_shim_that_is_preloaded_already_is_refused(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/lib/other.so")
    program.check_environment()
    monkeypatch.setenv("LD_PRELOAD", f"{other}{library_path()}")
    with pytest.raises(UsageError, match="LD_PRELOAD has the shim"):
        program.check_environment()


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    path = tmp_path / "launcher"
    path.write_text(LAUNCHER)
    path.chmod(0o755)
    return path


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "program", "--fabric", "pair", "-n", "2", "--turns", "2", *arguments])


def test_command(up: Up, fabric: Fabric, launcher: Path) -> None:
    up(fabric)
    report = f'printf "{REPORT}" >&2'
    result = bench("--mpirun", str(launcher), "--", "sh", "-c", f"{WITH_SHIM} && {report}; echo 1")
    assert result.exit_code == 0, result.stderr
    assert "ratio of medians, with Fanin to plain: " in result.stdout
    assert "of 2 turns\n" in result.stdout
    assert "calls of all ranks: 12 offloaded, 12 left to the MPI (THRESHOLD 10, OP 2)\n" in result.stdout
    assert "standard output: same\n" in result.stdout
    assert "turn 2 of 2: plain " in result.stderr
    assert "fanin: BAD_SETTING: " in result.stderr


def test_output_that_differs_and_a_shim_without_a_report_are_told(up: Up, fabric: Fabric, launcher: Path) -> None:
    up(fabric)
    result = bench("--mpirun", str(launcher), "--", "sh", "-c", f"{WITH_SHIM} && echo 1 || echo 2")
    assert result.exit_code == 0, result.stderr
    assert "standard output: differs in 1 line, also without decimal numbers\n" in result.stdout
    assert "no report of the shim: " in result.stdout


def test_json_has_all_times(up: Up, fabric: Fabric, launcher: Path) -> None:
    up(fabric)
    result = bench("--mpirun", str(launcher), "--json", "--", "sh", "-c", "echo 1")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["program"], found["ranks"], found["calls"]) == (["sh", "-c", "echo 1"], 2, None)
    assert (len(found["plain_s"]), len(found["with_fanin_s"])) == (2, 2)
    assert found["ratio"] > 0
    assert found["output"] == {"lines": 0, "without_decimals": 0}


def test_paths_are_those_of_the_user(
    up: Up, fabric: Fabric, launcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher's path begins at the current directory, the program's at --directory."""
    up(fabric)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "program").write_text("#!/bin/sh\nexec pwd\n")
    (tmp_path / "inner" / "program").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    result = bench("--mpirun", "./launcher", "--directory", "inner", "--", "./program")
    assert result.exit_code == 0, result.stderr


def test_a_program_that_fails_is_one_line(up: Up, fabric: Fabric, launcher: Path) -> None:
    up(fabric)
    result = bench("--mpirun", str(launcher), "--json", "--", "sh", "-c", f"{WITH_SHIM} && exit 5; true")
    assert result.exit_code == 1
    assert "fanin: PROGRAM_FAILED: with Fanin, turn 1: ended with exit code 5; see all that it says" in result.stderr
    assert json.loads(result.stdout)["error"]["name"] == "PROGRAM_FAILED"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--mpirun", "no-such-launcher", "--", "true"], "NO_PROGRAM: there is no program 'no-such-launcher'"),
        (["--mpirun", "true '", "--", "true"], 'INVALID_REQUEST: --mpirun "true \'": No closing quotation'),
        (["--mpirun", "true", "--", "no-such-program"], "NO_PROGRAM: no-such-program can not be started"),
        (
            ["--mpirun", "true", "--directory", os.devnull, "--", "true"],
            "INVALID_REQUEST: /dev/null is not a directory",
        ),
        (["--mpirun", "true", "-n", "1000", "--", "true"], "NO_RESOURCES: 1000 ranks do not fit"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_started(state_root: Path, arguments: list[str], error: str) -> None:
    result = CliRunner().invoke(app, ["bench", "program", "--fabric", "nowhere", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"fanin: {error}")
    assert state.names() == []
