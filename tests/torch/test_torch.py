"""The back-end of torch.distributed: right results beside Gloo's, training, errors by name, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch.launch import BOUND_S, ROOT, Ranks, run

pytestmark = pytest.mark.process


@pytest.mark.parametrize("program", ["reductions", "movements", "shapes"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_collectives_beside_gloo(local: list[str], program: str, size: int) -> None:
    run(f"against_gloo.{program}", size, local)


@pytest.mark.parametrize("program", ["reductions", "movements", "shapes"])
def test_collectives_over_a_switch(tree: list[str], program: str) -> None:
    run(f"against_gloo.{program}", 4, tree)


BEHAVIOUR = ["works", "coalesced", "groups", "messages", "refusals", "abort", "late_rank", "mismatch"]


@pytest.mark.parametrize("program", BEHAVIOUR)
def test_behaviour(local: list[str], program: str) -> None:
    run(f"behaviour.{program}", 4, local)


def test_messages_between_nics(tree: list[str]) -> None:
    run("behaviour.messages", 4, tree)


def test_strict(local: list[str]) -> None:
    run("behaviour.strict", 2, local, FANIN_TORCH_STRICT="1")


def test_report(local: list[str]) -> None:
    errors = run("training.data_parallel", 2, local, FANIN_TORCH_REPORT="1")
    assert "allreduce" in errors[0]
    assert "allreduce" not in errors[1]


@pytest.mark.parametrize("program", ["data_parallel", "fully_sharded", "tensor_parallel"])
def test_training(local: list[str], program: str) -> None:
    run(f"training.{program}", 4, local)


def test_distributed_checkpoint(local: list[str], tmp_path: Path) -> None:
    run("training.checkpointed", 4, local, FANIN_TEST_FOLDER=str(tmp_path))


def test_a_rank_that_is_killed(local: list[str]) -> None:
    with Ranks("behaviour.survivor", 4, local) as ranks:
        assert [ranks.line(rank) for rank in range(4)] == ["ready"] * 4
        ranks.killed(2)
        for rank in (0, 1, 3):
            ranks.tell(rank)
        ranks.finish(0, 1, 3)


def test_training_goes_on_after_a_kill(local: list[str], tmp_path: Path) -> None:
    """The times, which `pytest -s` shows, are for docs/pytorch.md; none is asserted."""
    with Ranks("recovery.in_mid_step", 4, local, FANIN_TEST_KILLED=str(tmp_path / "killed")) as ranks:
        ranks.finish(0, 1, 3)
        ranks.killed(2)
        for rank in (0, 1, 3):
            print(f"rank {rank}: {ranks.line(rank)}")


def test_wrong_setting(local: list[str]) -> None:
    with Ranks("behaviour.strict", 2, local, FANIN_TORCH_SLOTS="5") as ranks:
        for error in ranks.finish(code=1):
            assert "INVALID_REQUEST: FANIN_TORCH_SLOTS is '5'. Set it to a power of two" in error


def test_a_fabric_for_the_run(tmp_path: Path, bench: object) -> None:
    """torchrun on one machine, where nothing is configured and no fabric is up; nothing is left of it."""
    own = {"TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FANIN_S")} | own
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--standalone", "-m"]
    command += ["tests.torch.rank", "behaviour.no_device"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=BOUND_S)
    assert (done.returncode, done.stdout.split()) == (0, ["ok"] * 3), done.stderr
    folders = list(tmp_path.glob("fanin-torch-*"))
    assert all(not is_listening(folder) for folder in folders)


def is_listening(folder: Path) -> bool:
    """Whether the guard of a NIC is still there, after it has had the time to end."""
    return any(line.endswith(str(folder / "guard")) for line in Path("/proc/net/unix").read_text().splitlines())
