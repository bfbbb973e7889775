"""Up, status and down: idempotent, refused where they must be, and nothing left behind."""

import dataclasses
import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.processes import ProcessIdentity, send_signal, terminate, wait_until_gone
from fanin_tools.fabric.state import FabricState
from fanin_tools.progress import ProgressCallback
from tests.fabric.fixtures import Up, fake_devices, ignore
from tests.waiting import BOUND_S


def test_up_makes_every_device_answer(up: Up, fabric: Fabric) -> None:
    running = up(fabric)
    status = lifecycle.status("pair")
    assert running.fresh
    assert [row["answer"]["name"] for row in status["devices"]] == ["switch", "nic0", "nic1"]
    assert [row["answer"]["pid"] for row in status["devices"]] == [row["pid"] for row in status["devices"]]


def test_up_again_changes_nothing(up: Up, fabric: Fabric) -> None:
    up(fabric)
    before = FabricState("pair").processes()
    assert not up(Plan("pair", Shape(nodes=2))).fresh
    assert FabricState("pair").processes() == before


def test_up_refuses_another_description(up: Up, fabric: Fabric) -> None:
    up(fabric)
    with pytest.raises(ToolError, match=r"FABRIC_DIFFERS: .* mtu 9000 \(asked: 4096\)"):
        up(replace(fabric, mtu=4096))
    with pytest.raises(ToolError, match=r"number of NICs 2 \(asked: 3\)"):
        up(Plan("pair", Shape(nodes=3)))
    assert lifecycle.find("pair") is not None


def test_two_fabrics_are_up_at_once(up: Up, fabric: Fabric) -> None:
    up(fabric)
    other = up(Plan("other", Shape(nodes=1)))
    assert other.fabric.nics[0].address != fabric.nics[0].address
    lifecycle.down("pair")
    assert lifecycle.find("other") is not None


def test_down_leaves_nothing(up: Up, fabric: Fabric, state_root: Path) -> None:
    up(fabric)
    processes = FabricState("pair").processes()
    assert lifecycle.down("pair")
    assert list(state_root.iterdir()) == []
    assert not any(process.alive for process in processes.values())
    assert not lifecycle.down("pair")


def test_failed_start_is_rolled_back_and_says_why(
    up: Up, fabric: Fabric, state_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FANIN_FAKE_DEVICE_FAILS", "nic1")
    with pytest.raises(
        ToolError, match="DEVICE_LOST: device nic1 ended while starting; it said: nic1 was told to fail"
    ):
        up(fabric)
    assert list(state_root.iterdir()) == []


def test_full_state_folder_is_named_and_nothing_is_left(
    up: Up, fabric: Fabric, state_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system without room takes new folders and empty files, and refuses what is written to them."""

    def full(_path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ToolError, match=r"BAD_PATH: .*/pair can not be written: No space left .*; make room"):
        up(fabric)
    assert list(state_root.iterdir()) == []


def test_plain_switches_have_no_daemon(up: Up) -> None:
    running = up(Plan("mixed", Shape(4, fanout=(2, 2), plain_leaves=True)))
    assert set(running.state.processes()) == {"nic0", "nic1", "nic2", "nic3", "switch"}
    rows = {row["name"]: row for row in lifecycle.status("mixed")["devices"]}
    assert [rows[name]["offload"] for name in ("switch", "switch-0", "switch-1")] == [True, False, False]
    assert rows["switch-0"]["answer"] is None
    assert lifecycle.find("mixed") is not None
    assert not up(Plan("mixed", Shape(4, fanout=(2, 2), plain_leaves=True))).fresh


def test_up_after_a_crash_starts_afresh(up: Up, fabric: Fabric) -> None:
    up(fabric)
    old = FabricState("pair").processes()
    for process in old.values():
        send_signal(process, signal.SIGKILL)
    wait_until_gone(list(old.values()), BOUND_S)
    assert lifecycle.find("pair") is None
    assert up(fabric).fresh


def test_devices_that_run_are_left_alone_when_another_has_died(up: Up, fabric: Fabric) -> None:
    """Somebody may use them."""
    up(fabric)
    old = FabricState("pair").processes()
    send_signal(old["nic0"], signal.SIGKILL)
    wait_until_gone([old["nic0"]], BOUND_S)
    with pytest.raises(ToolError, match=r"FABRIC_INCOMPLETE: .* pair nic0 does not run.* restart nic0 --name pair"):
        up(fabric)
    assert [name for name, process in old.items() if process.alive] == ["nic1", "switch"]


def test_remains_of_a_killed_command_are_taken_down(up: Up, fabric: Fabric) -> None:
    """By the next one that needs a fabric for itself; what others have brought up stays."""
    up(fabric)
    me = ProcessIdentity.of(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        other = ProcessIdentity.of(stranger.pid)
        for name, leaseholders in (("mine", [me]), ("ours", [other, me]), ("theirs", [other]), ("kept", [other])):
            up(Plan(name, Shape(nodes=1))).state.set_leaseholders(leaseholders)
        up(Plan("kept", Shape(nodes=1)))
        lifecycle.clean_up(ignore)
        assert lifecycle.find("theirs") is not None
    lifecycle.clean_up(ignore)
    assert [name for name in ("pair", "mine", "ours", "theirs", "kept") if lifecycle.find(name) is None] == ["theirs"]


def test_the_last_user_takes_it_down(up: Up) -> None:
    """However often a command uses it; unless somebody has brought it up to stay meanwhile."""
    me, plan = ProcessIdentity.of(os.getpid()), Plan("lent", Shape(nodes=1))
    for stays in (False, True):
        assert [lifecycle.up(plan, ignore, fake_devices, leaseholder=me).fresh for _ in range(2)] == [True, False]
        lifecycle.release("lent", me)
        assert lifecycle.find("lent") is not None
        if stays:
            up(plan)
        lifecycle.release("lent", me)
        assert (lifecycle.find("lent") is not None) == stays


def test_fabric_brought_up_meanwhile_by_another_command_is_left_alone(up: Up) -> None:
    me, plan = ProcessIdentity.of(os.getpid()), Plan("lent", Shape(nodes=1))
    lifecycle.up(plan, ignore, fake_devices, leaseholder=me)
    lifecycle.down("lent")
    up(plan).state.set_leaseholders([ProcessIdentity.of(os.getppid())])
    lifecycle.release("lent", me)
    assert lifecycle.find("lent") is not None


def test_begun_devices_are_recorded_for_their_command(fabric: Fabric, state_root: Path) -> None:
    """Also if it is killed before its devices answer."""
    seen = []

    def begun(fabric: Fabric, folder: FabricState, progress: ProgressCallback) -> Iterator[tuple[str, ProcessIdentity]]:
        seen.append(folder.leaseholders)
        return fake_devices(fabric, folder, progress)

    me = ProcessIdentity.of(os.getpid())
    lifecycle.up(fabric, ignore, begun, leaseholder=me)
    assert seen == [[me]]


def test_status_shows_ended_devices(up: Up, fabric: Fabric) -> None:
    up(fabric)
    terminate([FabricState("pair").processes()["nic1"]], 5)
    rows = {row["name"]: row for row in lifecycle.status("pair")["devices"]}
    assert rows["nic1"]["pid"] is None
    assert rows["nic1"]["answer"] is None
    assert rows["nic0"]["answer"] is not None


def test_restart_of_an_unknown_device_is_refused_by_name(up: Up, fabric: Fabric) -> None:
    with pytest.raises(ToolError, match="NO_FABRIC: there is no fabric nowhere"):
        lifecycle.restart("nowhere", "nic0", str)
    up(fabric)
    before = FabricState("pair").processes()
    with pytest.raises(ToolError, match=r"NO_DEVICE: .* 'nic9'; name one of nic0, nic1, switch"):
        lifecycle.restart("pair", "nic9", str)
    assert FabricState("pair").processes() == before


def test_reused_pid_is_never_signalled(state_root: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        identity = ProcessIdentity.of(stranger.pid)
        impostor = dataclasses.replace(identity, start_time=identity.start_time - 1)
        assert identity.alive
        assert not impostor.alive
        terminate([impostor], 0.1)
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert stranger.returncode == 0


def test_state_folder_belongs_to_the_user_alone(up: Up, fabric: Fabric, state_root: Path) -> None:
    up(fabric)
    for folder in (state_root, state_root / "pair"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_open_state_folder_is_refused(up: Up, state_root: Path) -> None:
    state_root.mkdir(exist_ok=True)
    os.chmod(state_root, 0o777)
    with pytest.raises(ToolError, match="PERMISSION_DENIED"):
        lifecycle.find("pair")
    os.chmod(state_root, 0o700)


def test_unknown_fabric_is_named(state_root: Path) -> None:
    with pytest.raises(ToolError, match="NO_FABRIC: there is no fabric nowhere"):
        lifecycle.status("nowhere")
