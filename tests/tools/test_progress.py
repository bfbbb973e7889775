"""What takes long is shown: as a line that changes on a terminal, elsewhere as a line now and then."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from fanin_tools import progress

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
    """All steps are on one line, which goes at the end."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", PROGRAM], stderr=theirs, env=environment, check=True, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert all(f"{done}/3" in shown for done in range(1, 4))
    assert shown.rstrip().endswith("\x1b[2K")  # the line is cleared
