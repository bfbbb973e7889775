"""Rank processes: their environment, their exit codes, and that none is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fanin import Job
from fanin_tools.errors import ToolError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity, wait_until_gone
from fanin_tools.launch import core_binding
from fanin_tools.launch.launcher import JobOutcome, Output, launch, read_exit_causes
from fanin_tools.launch.placement import place
from tests.fabric.fixtures import Up
from tests.waiting import BOUND_S

RANKS = 4


@pytest.fixture
def running(up: Up, fabric: Fabric) -> Running:
    return up(fabric)


def ended(running: Running, code: str, *arguments: str, **options) -> JobOutcome:
    command = [sys.executable, "-c", f"import os, sys, time, signal\nrank = int(os.environ['FANIN_RANK'])\n{code}"]
    return launch(running, place(running.fabric, RANKS, "auto"), [*command, *arguments], **options)


def python(running: Running, code: str, *arguments: str, **options) -> int:
    return ended(running, code, *arguments, **options).exit_code


def test_every_rank_runs_with_its_environment(running: Running, tmp_path: Path) -> None:
    code = "import shutil; shutil.copy(os.environ['FANIN_JOB'], sys.argv[1] + os.environ['FANIN_RANK'])"
    assert python(running, code, f"{tmp_path}/") == 0
    jobs = [Job.from_file(path) for path in sorted(tmp_path.iterdir())]
    assert len(jobs) == RANKS
    assert all(job == jobs[0] for job in jobs)
    assert [node.ranks for node in jobs[0].nodes] == [(0, 1), (2, 3)]


@pytest.mark.parametrize("bound", [False, True])
def test_ranks_are_kept_to_cores(running: Running, tmp_path: Path, bound: bool) -> None:
    mine = os.sched_getaffinity(0)
    code = "open(sys.argv[1] + str(rank), 'w').write(repr(os.sched_getaffinity(0)))"
    assert python(running, code, f"{tmp_path}/", bound=bound) == 0
    in_turn = core_binding.cores(mine) * RANKS
    expected = [repr(in_turn[rank] if bound else mine) for rank in range(RANKS)]
    assert [path.read_text() for path in sorted(tmp_path.iterdir())] == expected
    assert os.sched_getaffinity(0) == mine


def test_hardware_threads_of_a_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A rank has all usable threads of a core: the next one begins at the next core."""
    for thread, siblings in enumerate(["0,4", "1,5", "2-3", "2-3", "0,4", "1,5"]):
        (tmp_path / str(thread)).write_text(siblings + "\n")
    monkeypatch.setattr(core_binding, "SIBLINGS", str(tmp_path / "{}"))
    assert core_binding.cores(set(range(6))) == [{0, 4}, {1, 5}, {2, 3}]
    assert core_binding.cores({1, 3, 4, 5}) == [{1, 5}, {3}, {4}]
    assert core_binding.cores({7, 9}) == [{7}, {9}]  # the system does not say


@pytest.mark.process
def test_core_binding_of_the_starter_is_undone() -> None:
    mine = os.sched_getaffinity(0)
    with pytest.raises(FileNotFoundError), core_binding.bound(1):
        subprocess.Popen(["/no/such"])
    assert os.sched_getaffinity(0) == mine


def test_a_core_that_can_not_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.sched_getaffinity(0)
    monkeypatch.setattr(core_binding, "cores", lambda usable: [{1 << 12}])
    with pytest.raises(ToolError, match="NOT_BOUND"), core_binding.bound(0):
        raise AssertionError
    assert os.sched_getaffinity(0) == mine


def test_job_file_is_removed(running: Running) -> None:
    python(running, "pass")
    assert not list(running.state.folder.glob("job-*"))


def test_first_failure_decides_and_ends_the_others(running: Running) -> None:
    assert python(running, "sys.exit(7) if rank == 2 else time.sleep(600)", grace=0.1) == 7


def test_others_may_end_by_themselves_after_a_failure(running: Running, tmp_path: Path) -> None:
    code = "sys.exit(7) if rank == 2 else (time.sleep(0.3), open(sys.argv[1] + str(rank), 'w').close())"
    assert python(running, code, f"{tmp_path}/", grace=20) == 7
    assert len(list(tmp_path.iterdir())) == RANKS - 1


def test_others_that_shall_go_on_do_so_until_they_end_by_themselves(running: Running, tmp_path: Path) -> None:
    """The exit code is still that of the rank that failed."""
    code = "sys.exit(7) if rank == 2 else (time.sleep(0.3), open(sys.argv[1] + str(rank), 'w').close())"
    assert python(running, code, f"{tmp_path}/", grace=0, keep_going=True) == 7
    assert len(list(tmp_path.iterdir())) == RANKS - 1


def test_rank_that_ignores_the_request_to_end_is_killed(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanin_tools.launch.launcher.TERMINATE_SECONDS", 0.2)
    code = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1] + str(os.getpid()), 'w').close()
while len(os.listdir(sys.argv[1])) < 4: time.sleep(0.01)
sys.exit(5) if rank == 0 else time.sleep(600)"""
    assert python(running, code, f"{tmp_path}/", grace=0) == 5
    assert not any(Path(f"/proc/{path.name}").exists() for path in tmp_path.iterdir())


def test_failed_rank_is_named(running: Running) -> None:
    placement = place(running.fabric, RANKS, "auto")
    fails = "import os, sys, time; sys.exit(7) if os.environ['FANIN_RANK'] == '2' else time.sleep(600)"
    end = launch(running, placement, [sys.executable, "-c", fails], grace=0.1)
    assert (end.failed_rank, end.exit_code) == (2, 7)
    assert str(end) == "rank 2 ended with exit code 7"


NOTE = "open(os.environ['FANIN_CONSEQUENCES'], 'a').write(f'{rank} PEER_LOST\\n')"


def test_rank_that_only_follows_is_not_named(running: Running) -> None:
    """Rank 1 has failed by itself, and takes longer to end than those that wait for it."""
    code = f"if rank == 1: time.sleep(0.5); sys.exit(3)\n{NOTE}; sys.exit(1)"
    assert ended(running, code) == JobOutcome(1, 3)


def test_ranks_that_all_follow_somebody_say_why(running: Running) -> None:
    end = ended(running, f"if rank == 1: sys.exit(0)\n{NOTE}; sys.exit(1)")
    assert (end.exit_code, end.reason) == (1, "PEER_LOST")
    assert str(end).endswith("ended with exit code 1 after others had ended its job (PEER_LOST)")


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("1 PEER_LOST\n1 TIMEOUT\n", {1: "TIMEOUT"}),
        ("1 PEER_LOST\n0 ABORTED\n1 -\n", {0: "ABORTED"}),
        ("1 -\n1 PEER_LOST\n", {1: "PEER_LOST"}),
        ("\n1\n1 \nx PEER_LOST\n-1 PEER_LOST\n\xff\xff\n2 TIMEOUT", {2: "TIMEOUT"}),
        (None, {}),
    ],
)
def test_notes_are_read_with_tolerance(text: str | None, noted: dict[int, str], tmp_path: Path) -> None:
    """Any program may write into the file, or remove it."""
    path = tmp_path / "exit-causes"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    assert read_exit_causes(path) == noted


def test_notes_of_ranks_are_removed(running: Running) -> None:
    ended(running, NOTE)
    assert not list(running.state.folder.glob("job-*"))


@pytest.mark.parametrize(
    ("end", "code", "text"),
    [
        (JobOutcome(), 0, "all ranks ended well"),
        (JobOutcome(0, 1), 1, "rank 0 ended with exit code 1"),
        (JobOutcome(3, -9), 137, "rank 3 was ended by SIGKILL"),
        (JobOutcome(3, -40), 168, "rank 3 was ended by signal 40"),
    ],
)
def test_end_in_words(end: JobOutcome, code: int, text: str) -> None:
    assert end.exit_code == code
    assert str(end).startswith(text)


def test_death_by_a_signal_is_reported_as_a_shell_does(running: Running) -> None:
    assert python(running, "os.kill(os.getpid(), signal.SIGKILL)") == 137


def test_output_is_prefixed_on_request(running: Running, capfd: pytest.CaptureFixture[str]) -> None:
    python(running, "print('hello')", output=Output(prefix=True))
    assert sorted(capfd.readouterr().out.splitlines()) == [f"[{rank}] hello" for rank in range(RANKS)]


@pytest.mark.parametrize("prefix", [False, True])
def test_standard_output_is_left_to_the_command(
    running: Running, capfd: pytest.CaptureFixture[str], prefix: bool
) -> None:
    python(running, "print('hello')", output=Output(prefix, to_errors=True))
    shown = capfd.readouterr()
    lines = [f"[{rank}] hello" if prefix else "hello" for rank in range(RANKS)]
    assert (shown.out, sorted(shown.err.splitlines())) == ("", lines)


def test_missing_program_is_named(running: Running) -> None:
    with pytest.raises(ToolError, match=r"NO_PROGRAM: /no/such can not be started: No such file"):
        launch(running, place(running.fabric, 2, "auto"), ["/no/such"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_end_of_the_launcher_ends_all_ranks(running: Running, tmp_path: Path, number: int) -> None:
    """A signal to the launcher alone must suffice, even if a terminal would send it to all."""
    program = f"""
import sys
from fanin_tools.fabric import lifecycle
from fanin_tools.launch.launcher import JobOutcome, launch
from fanin_tools.launch.placement import place
running = lifecycle.find({running.fabric.name!r})
code = "import os, time; open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w').close(); time.sleep(600)"
launch(running, place(running.fabric, 2, 'auto'), [sys.executable, '-c', code])
"""
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as launcher:
        while launcher.poll() is None and len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.02)
        ranks = [ProcessIdentity.of(int(path.name)) for path in tmp_path.iterdir()]
        launcher.send_signal(number)
        _, errors = launcher.communicate(timeout=BOUND_S)
    assert (b"KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    assert wait_until_gone(ranks, 0 if number == signal.SIGINT else 5) == []
