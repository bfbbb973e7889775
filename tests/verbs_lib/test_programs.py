"""Programs in C of our own, compiled with the real header and linked with the real libibverbs."""

from pathlib import Path

import pytest

from fanin_tools.stress.faults.fault_kinds import frozen_device
from tests.verbs_lib.conftest import BOUND_S, Programs, build


@pytest.mark.parametrize(
    "name", ["refusals", "rights", "events", "departed", "operations", "pollers", "readers", "forked", "async_events"]
)
def test_program(programs: Programs, tmp_path: Path, name: str) -> None:
    ended = programs.run(build(f"{name}.c", tmp_path))
    assert ended.returncode == 0, ended.stderr


def test_batches_and_lists_for_a_queue_with_little_room(programs: Programs, tmp_path: Path) -> None:
    with programs.started(build("batches.c", tmp_path)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with frozen_device(programs.running, programs.running.fabric.nics[0].name):
            process.stdin.write("\n")
            process.stdin.flush()
            said = process.stdout.readline()
        _, complaint = process.communicate(timeout=BOUND_S)
    assert (said, process.returncode) == ("posted\n", 0), complaint


def test_a_queue_that_is_too_long_is_refused_with_a_reason(programs: Programs, tmp_path: Path) -> None:
    program = build("refusals.c", tmp_path)
    said = programs.run(program).stderr
    assert said.startswith("fanin: ibv_create_cq: 1048576 completions, but a completion queue holds 2048")
    assert len(said.splitlines()) == 1
    assert programs.run(program, FANIN_VERBS_QUIET="1").stderr == ""
