"""A machine without /proc, /sys, /dev/shm, a writable /tmp or a home: errors name what is missing, all else runs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fanin import Communicator, Job, JobNode
from fanin_tools.cli import output
from fanin_tools.fabric import processes
from tests.e2e.fabrics import eventually

FANIN = [str(Path(sys.executable).with_name("fanin"))]
EMPTY, READ_ONLY = "mount -t tmpfs none {}", "mount -t tmpfs -o ro none {}"
SECONDS = 120.0


def within(change: str, *command: str) -> list[str]:
    """A command in a machine that differs from this one by a mount."""
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("the right to make mounts (root)")
    return ["unshare", "--mount", "sh", "-c", f'{change} && exec "$@"', "sh", *command]


def answer(change: str, tmp_path: Path, *words: str) -> tuple[int, dict[str, str], str]:
    """Of a command of fanin: its exit code, the error of its JSON, and all of it."""
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    command = within(change, *FANIN, *words, "--json")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=SECONDS)
    said = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return done.returncode, said.get("error", {}), done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("change", "words", "name", "cause"),
    [
        (
            EMPTY.format("/proc"),
            ("fabric", "up", "--name", "unseen", "--nodes", "2"),
            "NOT_SUPPORTED",
            "/proc/self/stat",
        ),
        (EMPTY.format("/proc"), ("bench", "sizing"), "NOT_SUPPORTED", "/proc/cpuinfo"),
        (EMPTY.format("/sys"), ("topology",), "INVALID_REQUEST", "/sys/devices can not be read"),
        (READ_ONLY.format("/dev/shm"), ("doctor",), "", ""),
        (EMPTY.format("/proc"), ("doctor",), "", ""),
        ("umount -l /proc", ("doctor",), "", ""),
        (EMPTY.format("/sys"), ("doctor",), "", ""),
    ],
)
def test_a_command_ends_by_name(tmp_path: Path, change: str, words: tuple[str, ...], name: str, cause: str) -> None:
    code, error, said = answer(change, tmp_path, *words)
    assert "INTERNAL_ERROR" not in said
    assert (error.get("name", ""), cause in error.get("cause", "")) == (name, True), said
    assert code == 0 or name


@pytest.mark.process
def test_a_fabric_is_not_taken_for_dead(tmp_path: Path) -> None:
    """Without /proc every process seems to have ended."""
    state = tmp_path / "fanin/unseen"
    code, error, said = answer(EMPTY.format("/proc"), tmp_path, "fabric", "up", "--name", "unseen", "--nodes", "2")
    assert (code, error.get("name")) == (1, "NOT_SUPPORTED"), said
    assert not list(state.glob("*.sock")), "no device was started"


def test_what_proc_hides_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid=1 another user's process exists, but can not be inspected."""

    def refuse(path: Path) -> str:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(PermissionError) as caught:
        processes.ProcessIdentity.of(1)
    failure = output._unforeseen(caught.value)
    assert (failure.name, failure.cause) == (
        "NOT_SUPPORTED",
        "the kernel does not show /proc/1/stat: Operation not permitted",
    )
    assert "hidepid" in failure.remedy


@pytest.mark.process
def test_a_device_without_proc_serves_registered_memory(tmp_path: Path) -> None:
    """Ranks with /proc pass theirs, which the device can not inspect."""
    high, low = divmod(os.getpid(), 250)
    address, path = f"127.{200 + high % 50}.{low}.9", tmp_path / "s"
    command = within(
        EMPTY.format("/proc"),
        str(Path(sys.executable).with_name("fanin-nic")),
        "--name=nic",
        f"--address={address}",
        f"--socket={path}",
        "--slots=64",
    )
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stderr=log) as device:
        try:
            eventually(path.exists, bool, SECONDS)
            job = Job(jid=1, key=1, nodes=(JobNode(address, (0,)),), slots=8)
            with Communicator(job, 0, path, timeout=SECONDS) as communicator:
                assert communicator.allreduce(np.ones(4)).tolist() == [1, 1, 1, 1]
        finally:
            device.terminate()
    assert "/proc is not mounted here" in (tmp_path / "log").read_text()
