"""Progress of what takes long: a changing line on a terminal, else a line now and then."""

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fanin_tools import progress
from tests.waiting import BOUND_S

ROOT = Path(__file__).parents[2]
PROGRAM = """
from fanin_tools.progress import activity, print_progress
with activity("starting devices", print_progress, total=3) as starting:
    for done in range(4):
        starting.update(done)
        starting._bar.refresh()
"""


def test_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    said: list[str] = []
    with progress.activity("starting", said.append, total=90) as starting:
        for done in range(40):
            now = float(done)
            starting.update(done)
    assert said == ["starting ... 15 of 90, 15 s", "starting ... 30 of 90, 30 s"]


def test_first_line_comes_at_once_without_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    said: list[str] = []
    with progress.activity("compiling", said.append, silence=0) as compiling:
        compiling.update()
        compiling.update()
    assert said == ["compiling ..."]


@pytest.mark.process
def test_line_changes_on_a_terminal() -> None:
    """All steps are on one line, which vanishes at the end."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", PROGRAM], stderr=theirs, env=environment, check=True, timeout=BOUND_S)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert all(f"{done}/3" in shown for done in range(1, 4))
    assert shown.rstrip().endswith("\x1b[2K")  # the line is cleared


def test_block_that_calls_nothing_is_shown_by_its_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "BEAT_SECONDS", 0.001)
    monkeypatch.setattr(progress, "SILENCE_SECONDS", 0.0)
    said: list[str] = []
    with progress.steady("computing", said.append, total=9, note=lambda: "3 us") as computing:
        computing.update(4)
        end = time.monotonic() + 30
        while not said and time.monotonic() < end:
            time.sleep(0.001)
    assert said
    assert said[0].startswith("computing ... ")
    assert "of 9" in said[0]


@pytest.mark.process
def test_target_of_make_shows_how_long_it_runs() -> None:
    """`.ci/progress` keeps the command's output and exit code."""
    ours, theirs = pty.openpty()
    command = [ROOT / ".ci/progress", "installing", "sh", "-c", "sleep 1.5; echo done; exit 7"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert (done.returncode, done.stdout) == (7, "done\n")
    assert "installing ... 1 s" in shown
    assert shown.endswith("\x1b[K")


def test_no_target_of_make_installs_in_silence() -> None:
    text = (ROOT / "Makefile").read_text()
    lines = [line for line in text.splitlines() if re.search(r"-m pip |git .*(clone|fetch) -", line)]
    assert len(lines) > 3
    assert not [line for line in lines if "$(PROGRESS)" not in line]
