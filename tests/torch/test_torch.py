"""The back-end of torch.distributed: right results beside Gloo's, training, errors by name, nothing left behind."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch.launch import ROOT, Ranks, run, torchrun
from tests.waiting import TORCH_BOUND_S, eventually

pytestmark = pytest.mark.process


@pytest.mark.parametrize("program", ["reductions", "movements", "shapes"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_collectives_beside_gloo(local: list[str], program: str, size: int) -> None:
    run(f"against_gloo.{program}", size, local)


@pytest.mark.parametrize("program", ["reductions", "movements", "shapes"])
def test_collectives_over_a_switch(tree: list[str], program: str) -> None:
    run(f"against_gloo.{program}", 4, tree)


WORKS = ["works", "coalesced", "short_forms", "overlaps"]
WORKS += ["waiting_callbacks", "order_of_callbacks", "functional_results"]
MESSAGES = ["messages", "messages_in_any_order", "late_messages", "messages_of_threads", "unawaited_messages"]
MESSAGES += ["batch_of_which_one_is_late"]
TENSORS = ["copies", "small_tensors", "resized_storage", "one_element", "too_many_regions", "memory_of_threads"]
GROUPS = ["groups", "refusals", "abort", "late_rank", "mismatch", "absent", "forked_child"]
BEHAVIOUR = {"works": WORKS, "messages": MESSAGES, "tensors": TENSORS, "behaviour": GROUPS}


@pytest.mark.parametrize("program", [f"{file}.{each}" for file, programs in BEHAVIOUR.items() for each in programs])
def test_behaviour(local: list[str], program: str) -> None:
    run(program, 4, local)


@pytest.mark.parametrize("program", MESSAGES)
def test_messages_by_nic(local: list[str], program: str) -> None:
    run(f"messages.{program}", 4, local, FANIN_TORCH_MESSAGES="nic")


@pytest.mark.parametrize("by_nic", ["0123", "23"])
def test_messages_between_nics(tree: list[str], by_nic: str) -> None:
    """Of all ranks; and with two that have a socket between them, so that a receive from anyone waits for both."""
    run("messages.messages", 4, tree, FANIN_TEST_NIC_RANKS=by_nic)


@pytest.mark.parametrize("has_fabric", [True, False])
def test_ranks_that_are_threads(local: list[str], has_fabric: bool) -> None:
    run("behaviour.threads", 1, local if has_fabric else [])


def test_groups_in_a_world_of_gloo(local: list[str]) -> None:
    run("behaviour.groups_in_a_world_of_gloo", 3, local, FANIN_TEST_BACKEND="gloo")


def test_strict(local: list[str]) -> None:
    run("behaviour.strict", 2, local, FANIN_TORCH_STRICT="1")


def test_report(local: list[str]) -> None:
    errors = run("training.data_parallel", 2, local, FANIN_TORCH_REPORT="1")
    assert "allreduce" in errors[0]
    assert "allreduce" not in errors[1]


TRAINING = ["data_parallel", "fully_sharded", "fully_sharded_1", "tensor_parallel", "compiled", "low_rank"]


@pytest.mark.parametrize("program", TRAINING)
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


WRONG = {"FANIN_TORCH_SLOTS": "a power of two", "FANIN_TORCH_KEEP": "a number of seconds", "FANIN_ORDER": "one of rank"}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_setting(local: list[str], name: str) -> None:
    with Ranks("behaviour.strict", 2, local, **{name: "5 s"}) as ranks:
        for error in ranks.finish(code=1):
            assert f"INVALID_REQUEST: {name} is '5 s'. Set it to {WRONG[name]}" in error


@pytest.mark.parametrize("name", ["short", "l" + 90 * "o" + "ng"])
def test_a_fabric_for_the_run(tmp_path: Path, bench: object, name: str) -> None:
    """torchrun on one machine, without configuration or fabric; nothing is left of it. The name of the folder for
    temporary files may be too long for a socket."""
    tmp_path /= name
    tmp_path.mkdir()
    said = torchrun(3, "-m", "tests.torch.rank", "behaviour.no_device", TMPDIR=str(tmp_path))
    assert "".join(said.split()) == 3 * "ok"  # lines of ranks may run into each other
    await_end(int((tmp_path / "guard.pid").read_text()))
    assert list(tmp_path.glob("fanin-torch-*")) == []


def test_the_next_run_takes_the_nic(tmp_path: Path, bench: object) -> None:
    """Of the same user, with the same settings, when no rank uses it."""
    guards = []
    for keep in ("60", "60", "1"):
        environment = {"TMPDIR": str(tmp_path), "FANIN_TORCH_KEEP": keep}
        torchrun(2, "-m", "tests.torch.rank", "behaviour.no_device", **environment)
        guards.append(int((tmp_path / "guard.pid").read_text()))
    assert guards[0] == guards[1] != guards[2]
    os.kill(guards[0], signal.SIGTERM)
    for guard in guards:
        await_end(guard)
    assert list(tmp_path.glob("fanin-torch-*")) == []


def test_a_nic_ends_with_the_program_that_guards_it(tmp_path: Path, bench: object) -> None:
    """It is killed, and can end nothing itself."""
    command = [sys.executable, "-P", str(ROOT / "host/fanin_torch/guard.py"), str(tmp_path), "", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as guard:
        try:
            assert guard.stdout is not None
            assert guard.stdout.readline() == "ready\n"
            nic = int(Path(f"/proc/{guard.pid}/task/{guard.pid}/children").read_text())
        finally:
            guard.kill()
    await_end(nic)


def test_a_nic_that_nobody_waits_for_is_not_made(tmp_path: Path) -> None:
    """Rank 0 ended while the first NIC's code was compiled, of which nothing goes on."""
    folder, cache = tmp_path / "run", tmp_path / "cache"
    folder.mkdir()
    command = [sys.executable, "-P", str(ROOT / "host/fanin_torch/guard.py"), str(folder), "", "0"]
    environment = os.environ | {"FANIN_CACHE_DIR": str(cache)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as guard:
        assert guard.stdout is not None
        children = Path(f"/proc/{guard.pid}/task/{guard.pid}/children")
        nic = int(eventually(children.read_text, bool))
        guard.stdout.close()
    assert not Path(f"/proc/{nic}").exists()
    assert not folder.exists()
    assert not list(cache.rglob("*.nbi")), "its code was compiled"


def await_end(pid: int) -> None:
    """Wait for a process that is not this one's child."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        ended, _, _ = select.select([process], [], [], TORCH_BOUND_S)
        os.close(process)
        assert ended
