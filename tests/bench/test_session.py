"""A session gives commands to its ranks, collects their answers, and names ranks that fail."""

import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from fanin_tools.bench import profile, rank_program
from fanin_tools.bench import session as module
from fanin_tools.bench.session import Command, Session
from fanin_tools.bench.setups import repetitions
from fanin_tools.errors import ToolError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import core_binding
from tests.bench.fake_rank import FakeLibrary

ROOT = Path(__file__).parents[2]
CONNECT = "import socket; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: pytest's own are too long for UNIX sockets."""
    with tempfile.TemporaryDirectory(prefix="fanin-test-", dir="/tmp") as name:
        yield Path(name)


def session(folder: Path, *conducts: str, blame: str = "PEER_FAILED") -> Session:
    """Ranks of a fake library, one for each conduct."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in (str(ROOT), *sys.path) if path)}
    program = [sys.executable, "-m", "tests.bench.fake_rank", str(folder / "ranks")]
    commands = [
        Command([*program, str(rank), str(len(conducts)), conduct], environment)
        for rank, conduct in enumerate(conducts)
    ]
    return Session("Other", blame == "PROGRAM_FAILED", len(conducts), folder, commands)


def shell(script: str) -> Command:
    return Command(["sh", "-c", script], {})


def python(folder: Path, program: str) -> Command:
    return Command([sys.executable, "-c", program, str(folder / "ranks")], dict(os.environ))


@pytest.mark.process
@pytest.mark.parametrize("bound", [0, 1, None])
def test_a_rank_is_kept_to_its_core(folder: Path, bound: int | None) -> None:
    """A rank's error output is the reason that the session gives."""
    mine = os.sched_getaffinity(0)
    line = [sys.executable, "-c", "import os; raise SystemExit(f'{sorted(os.sched_getaffinity(0))} are mine')"]
    expected = mine if bound is None else core_binding.cores(mine)[bound % len(core_binding.cores(mine))]
    with pytest.raises(ToolError, match=re.escape(f"{sorted(expected)} are mine")):
        Session("Other", False, 1, folder, [Command(line, dict(os.environ), bound)])


@pytest.mark.process
@pytest.mark.parametrize("size", [8, 1004, 4096])
def test_a_turn_has_a_time_of_every_repetition(folder: Path, size: int) -> None:
    ranks = session(folder, "good", "good")
    ranks.prepare(size)
    times = ranks.turn(size)
    ranks.release()
    ranks.close()
    assert len(times) == repetitions(size)
    assert all(time > 0 for time in times)


@pytest.mark.process
def test_next_command_waits_for_all_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []
    ask = Session.ask

    def watched(ranks: Session, **command: Any) -> list[dict[str, Any]]:
        answers = ask(ranks, **command)
        commands.append(command["do"])
        return answers

    monkeypatch.setattr(Session, "ask", watched)
    ranks = session(folder, "good", "good")
    ranks.prepare(2000)
    ranks.turn(2000)
    ranks.close()
    assert commands == ["prepare", "time", "verify"]


@pytest.mark.process
def test_wrong_bit_in_a_measurement(folder: Path) -> None:
    ranks = session(folder, "good", "wrong")
    ranks.prepare(2000)
    with pytest.raises(ToolError, match=r"WRONG_RESULT: Other, 1.953 KiB: 1 elements have a wrong bit"):
        ranks.turn(2000)
    ranks.close()


@pytest.mark.process
def test_wrong_bit_in_a_profile(folder: Path) -> None:
    ranks, no_fabric = session(folder, "good", "wrong"), cast(Running, None)
    with pytest.raises(ToolError, match=r"WRONG_RESULT: Other, 1.953 KiB: 1 elements have a wrong bit"):
        profile._profile(no_fabric, ranks, 2000, devices=())
    ranks.close()


@pytest.mark.process
@pytest.mark.parametrize("blame", ["PEER_FAILED", "PROGRAM_FAILED"])
def test_rank_that_fails_is_quoted(folder: Path, blame: str) -> None:
    ranks = session(folder, "good", "dies", blame=blame)
    with pytest.raises(ToolError, match=rf"{blame}: Other: .*no more of this"):
        ranks.prepare(64)
    ranks.close()


@pytest.mark.process
def test_ranks_that_do_not_start(folder: Path) -> None:
    with pytest.raises(ToolError, match=r"PEER_FAILED: Other: its ranks did not start: no such option"):
        Session("Other", False, 1, folder, [shell("echo no such option; exit 3")])


@pytest.mark.process
def test_ranks_that_end_well_before_they_connect(folder: Path) -> None:
    with pytest.raises(ToolError, match=r"PEER_FAILED: Other: its ranks did not start: nothing to do"):
        Session("Other", False, 1, folder, [shell("echo nothing to do")])


@pytest.mark.process
def test_command_that_can_not_be_started(folder: Path) -> None:
    with pytest.raises(ToolError, match=r"PEER_FAILED: Other: .*/mpiexec: No such file or directory"):
        Session("Other", False, 1, folder, [Command([str(folder / "mpiexec")], {})])


@pytest.mark.process
def test_rank_that_connects_and_says_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(module, "EXIT_SECONDS", 0.1)
    with pytest.raises(ToolError, match=r"PEER_FAILED: Other: timed out"):
        Session("Other", False, 1, folder, [python(folder, f"import sys, time; {CONNECT}; time.sleep(3600)")])


@pytest.mark.process
@pytest.mark.parametrize(("answer", "status"), [("lambda *_: sys.exit(3)", 3), ("signal.SIG_IGN", -signal.SIGKILL)])
def test_hanging_process_gets_sigterm_then_sigkill(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: int
) -> None:
    """SIGTERM lets mpiexec end its ranks; one that ignores it is killed."""
    monkeypatch.setattr(module, "END_SECONDS", 0.1)
    monkeypatch.setattr(module, "TERMINATE_SECONDS", 0.1 if status < 0 else 60.0)
    program = f"import signal, sys, time; signal.signal(signal.SIGTERM, {answer}); {CONNECT}"
    program += """; s.sendall(b'{"rank": 0}\\n'); time.sleep(3600)"""
    ranks = Session("Other", False, 1, folder, [python(folder, program)])
    ranks.close()
    assert [process.returncode for process in ranks._processes] == [status]


def test_a_rank_obeys_until_there_is_nothing_more() -> None:
    ours, theirs = socket.socketpair()
    rank = threading.Thread(target=rank_program.serve, args=(FakeLibrary(1, 3), theirs))
    rank.start()
    commands = [
        {"do": "prepare", "count": 300, "warm": 1},
        {"do": "time", "warm": 1, "repeat": 4},
        {"do": "verify"},
        {"do": "release"},
    ]
    with ours, ours.makefile("r") as answers:
        ours.sendall("".join(json.dumps(command) + "\n" for command in commands).encode())
        ours.shutdown(socket.SHUT_WR)
        hello, prepared, timed, verified, released = map(json.loads, answers)
    rank.join()
    assert (hello, prepared, released) == ({"rank": 1, "size": 3}, {}, {})
    assert len(timed.pop("ns")) == 4
    assert (timed, verified) == ({}, {"wrong": 0})


@pytest.mark.parametrize("count", [1, rank_program.PERIOD, 1000])
def test_every_wrong_element_is_counted(count: int) -> None:
    measured = rank_program.Measured(FakeLibrary(2, 4), count)
    measured.time(1, 0)
    assert measured.wrong() == 0
    measured.result[-1] += 1
    measured.result[0] += 1
    assert measured.wrong() == min(count, 2)
