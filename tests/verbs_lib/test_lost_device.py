"""The device of a program ends: an asynchronous event says so, calls are refused, and all can be given back."""

from __future__ import annotations

from pathlib import Path

from fanin_tools.stress.faults.process_faults import kill_device
from tests.verbs_lib.conftest import BOUND_S, Programs, build


def test_a_program_hears_of_it(programs: Programs, tmp_path: Path) -> None:
    with programs.started(build("async_events.c", tmp_path), "lost") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        kill_device(programs.running, programs.running.fabric.nics[0].name)
        _, complaint = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0, complaint
