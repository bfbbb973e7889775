"""A program's device ends: an asynchronous event says so, calls are refused, and all can be given back."""

from pathlib import Path

import pytest

from fanin_tools.stress.faults.fault_kinds import kill_device
from tests.verbs_lib.conftest import BOUND_S, Programs, build


@pytest.mark.parametrize(("number", "waiters"), [(0, "lost"), (1, "two threads")])
def test_a_program_hears_of_it(programs: Programs, tmp_path: Path, number: int, waiters: str) -> None:
    nic = programs.running.fabric.nics[number].name
    variables = programs.variables() | {"FANIN_SOCKET": str(programs.running.state.socket(nic))}
    with programs.started(build("async_events.c", tmp_path), waiters, variables=variables) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        kill_device(programs.running, nic)
        _, complaint = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0, complaint
