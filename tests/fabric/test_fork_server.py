"""The fork server of devices leaves nothing behind when a start fails."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fanin_nic.daemon import precompile
from fanin_nic.native.cache import CacheUnavailable
from fanin_tools.errors import ToolError
from fanin_tools.fabric import daemons, fork_server, lifecycle
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.processes import ProcessIdentity, wait_until_gone
from fanin_tools.fabric.state import FabricState
from tests.fabric.fixtures import ignore
from tests.waiting import eventually

BOUND_S = 120.0  # to load the device code, on a busy machine


def test_unrecorded_devices_never_begin(fabric: Fabric) -> None:
    """The caller dies before it lets them: they end, without a port or a socket."""
    state = FabricState(fabric.name)
    state.create(fabric)
    command = [sys.executable, "-m", fork_server.MODULE, fabric.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loader:
        assert loader.stdout is not None
        assert loader.stdin is not None
        started = [line.split() for line in loader.stdout if line.strip() != fork_server.COMPILING]
        waiting = [ProcessIdentity.of(int(process)) for _, process in started]
        assert [process.alive for process in waiting] == [True] * len(fabric.devices)
        loader.stdin.close()
    assert loader.returncode == 0
    assert wait_until_gone(waiting, BOUND_S) == []
    assert not any(state.socket(device.name).exists() for device in fabric.devices)


@pytest.mark.process
@pytest.mark.parametrize("complete", [True, False])
def test_compiling_is_announced_only_where_it_is_needed_and_left_to_another_process(
    complete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However long it takes to load what is there, on a busy machine."""
    monkeypatch.setattr("fanin_nic.native.compiled.COMPLETE", tmp_path / "complete")
    monkeypatch.setattr("fanin_nic.daemon.precompile.precompile", lambda: None)
    started: list[list[str]] = []

    def compiler(command: list[str], **_options: int) -> subprocess.Popen:
        started.append(command)
        return actual([sys.executable, "-c", "import time; time.sleep(0.3)"])

    actual = subprocess.Popen
    monkeypatch.setattr(fork_server.subprocess, "Popen", compiler)
    monkeypatch.setattr(fork_server, "ANNOUNCEMENT_SECONDS", 0.1)
    if complete:
        (tmp_path / "complete").touch()
    fork_server.load()
    lines = capsys.readouterr().out.splitlines()
    assert set(lines) == (set() if complete else {fork_server.COMPILING})
    assert complete or len(lines) > 1  # it says again that it goes on
    assert started == ([] if complete else [[sys.executable, "-m", "fanin_nic.daemon.precompile"]])


def test_one_process_compiles_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one that begins meanwhile waits, and finds all there."""
    done: list[str] = []
    monkeypatch.setattr(precompile, "CACHE_FOLDER", tmp_path)
    monkeypatch.setattr(precompile, "COMPLETE", tmp_path / "complete")
    monkeypatch.setattr(precompile.os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(precompile, "_precompile_control", lambda: done.append("compiled"))
    monkeypatch.setattr(precompile, "mark_complete", lambda: None)
    with (tmp_path / "compiling").open("w") as first, ThreadPoolExecutor(1) as other:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = other.submit(precompile.precompile)
        with pytest.raises(TimeoutError):
            second.result(0.2)
        assert done == []
        fcntl.flock(first, fcntl.LOCK_UN)
        second.result(BOUND_S)
    assert done == ["compiled"]


@pytest.mark.process
def test_failed_compilation_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take as long again and fail in the same way."""
    monkeypatch.setattr("fanin_nic.native.compiled.COMPLETE", tmp_path / "complete")
    monkeypatch.setattr("fanin_nic.daemon.precompile.precompile", lambda: pytest.fail("it compiles again"))
    monkeypatch.setattr(fork_server, "COMPILER", "fanin_tools.fabric.nowhere")
    with pytest.raises(SystemExit) as ended:
        fork_server.load()
    assert ended.value.code == 1


def test_announcement_reaches_the_user(fabric: Fabric, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "announcer.py").write_text(f"print({fork_server.COMPILING!r}); raise SystemExit('and fails')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(daemons.fork_server, "MODULE", "announcer")
    said: list[str] = []
    with pytest.raises(ToolError, match=r"COMPILATION_FAILED: .*and fails"):
        lifecycle.up(fabric, said.append)
    assert [line[:9] for line in said] == ["compiling"]


def test_fabric_whose_code_can_be_kept_nowhere_is_refused_at_once(
    fabric: Fabric, state_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Path:
        raise CacheUnavailable("by hand")

    monkeypatch.setattr(daemons, "choose_cache_folder", refuse)
    monkeypatch.setattr(daemons.fork_server, "MODULE", "fanin_tools.fabric.nowhere")
    with pytest.raises(CacheUnavailable, match="set FANIN_CACHE_DIR"):
        lifecycle.up(fabric, ignore)
    assert list(state_root.iterdir()) == []


def test_announcements_are_one_activity_until_the_first_device() -> None:
    """A plain line at once, and no further one for some seconds; the line after the last is that of a device."""
    lines = iter([f"{fork_server.COMPILING}\n"] * 2 + ["nic0 4711\n", "nic1 4712\n"])
    said: list[str] = []
    assert daemons._first_after_compiling(lines, said.append) == "nic0 4711\n"
    assert list(lines) == ["nic1 4712\n"]
    assert [line[:9] for line in said] == ["compiling"]
    assert daemons._first_after_compiling(iter([]), said.append) == ""


def test_unloadable_code_is_reported_with_its_output(
    fabric: Fabric, state_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons.fork_server, "MODULE", "fanin_tools.fabric.nowhere")
    with pytest.raises(ToolError, match=r"COMPILATION_FAILED: .*No module named fanin_tools\.fabric\.nowhere"):
        lifecycle.up(fabric, ignore)
    assert list(state_root.iterdir()) == []


def test_device_that_can_not_start_is_named_with_its_last_words(fabric: Fabric, state_root: Path) -> None:
    switch = fabric.switches[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((switch.address, 4791))
        with pytest.raises(ToolError, match=rf"DEVICE_LOST: device switch ended while starting; .*{switch.address}"):
            lifecycle.up(fabric, ignore)
    assert list(state_root.iterdir()) == []


def descendants(pid: int) -> set[int]:
    """Of a process: those that it has started, and so on."""
    found = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    return found.union(*map(descendants, found))


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_first_start_that_is_ended(state_root: Path, tmp_path: Path, number: int) -> None:
    """While the device code is compiled, by processes of a process."""
    command = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()", "fabric", "up", "--nodes", "1"]
    environment = os.environ | {"FANIN_CACHE_DIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        started = [*map(ProcessIdentity.of, eventually(lambda: descendants(process.pid), lambda found: len(found) > 1))]
        process.send_signal(number)
        _, said = process.communicate(timeout=BOUND_S)
    assert (process.returncode, "INTERRUPTED" in said) == (128 + number, True), said
    assert wait_until_gone(started, BOUND_S) == []
    assert not list(tmp_path.rglob("complete")), "it has waited for the end of the compilation"
    assert list(state_root.iterdir()) == []
