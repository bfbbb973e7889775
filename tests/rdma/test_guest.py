"""The harness: a guest boots with an rxe device; missing means are named; a failing guest shows its console."""

import contextlib
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .machine import image as image_module
from .machine import packages
from .machine.guest import MAC, PEER_MAC, CallFailed, Guest, GuestFailed, running
from .machine.image import Image
from .machine.packages import PackagesMissing


def test_device(guest: Guest) -> None:
    link = guest.call("run", command=["rdma", "link"])
    assert "rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0" in link
    assert guest.call("device")["gid"].endswith("ffff:0a00:0001")


def test_memory_of_the_guest(guest: Guest) -> None:
    region = guest.call("register", length=1 << 20, access=["LOCAL_WRITE"])["handle"]
    data = bytes(range(251)) * 4000
    guest.fill(region, 5, data)
    assert guest.bytes(region, 0, len(data) + 10) == bytes(5) + data + bytes(5)
    guest.call("deregister", region=region)


def test_call_that_fails_has_its_error(guest: Guest) -> None:
    with pytest.raises(CallFailed, match="KeyError: 12345"):
        guest.call("state", pair=12345)
    assert guest.is_whole
    assert guest.call("device")


def fake(folder: Path, *lines: str) -> Image:
    """An image whose emulator is a program of a few lines."""
    (folder / "emulator").write_text("\n".join([f"#!{sys.executable}", "import sys, time", *lines]))
    (folder / "emulator").chmod(0o755)
    (folder / "file-system").write_bytes(b"")
    return Image(folder / "emulator", [], {}, folder / "kernel", folder / "file-system")


@pytest.mark.process
def test_guest_that_ends_at_once(tmp_path: Path) -> None:
    image = fake(tmp_path, "print('Kernel panic', flush=True)", "sys.exit(3)")
    with pytest.raises(GuestFailed, match=r"(?s)has ended with 3 during start; the end of its console:\nKernel panic"):
        running(image).__enter__()


@pytest.mark.process
def test_guest_that_does_not_answer(tmp_path: Path) -> None:
    """And it is not left behind."""
    image = fake(tmp_path, "print('booting', flush=True)", "time.sleep(1000)")
    guest = Guest(image, tmp_path)
    while "booting" not in guest.console.read_text():
        time.sleep(0.01)
    try:
        with pytest.raises(GuestFailed, match=r"did not answer to poll in 1 s; the end of its console:\nbooting"):
            guest.call("poll", within=1)
    finally:
        guest.stop()
    assert not guest.is_whole
    with pytest.raises(ProcessLookupError):
        os.kill(guest.pid, 0)


@pytest.mark.process
def test_guests_at_one_link(tmp_path: Path) -> None:
    """Each has its own address, and receives the packets of the other."""
    image = fake(
        tmp_path,
        "import os, re",
        "words = ' '.join(sys.argv)",
        r"fd, mac = re.search(r'socket,id=wire,fd=(\d+) .*,mac=([0-9a-f:]+)', words).groups()",
        "os.write(int(fd), mac.encode())",
        "print(os.read(int(fd), 100).decode(), 'is heard', flush=True)",
        "time.sleep(1000)",
    )
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    with contextlib.ExitStack() as stack:
        first = Guest(image, folders[0])
        stack.callback(first.stop)
        second = Guest(image, folders[1], peer=first)
        stack.callback(second.stop)
        for guest, other in ((first, PEER_MAC), (second, MAC)):
            while "is heard" not in guest.console.read_text():
                assert guest.is_running, guest.console.read_text()
                time.sleep(0.01)
            assert guest.console.read_text() == f"{other} is heard\n"
        assert (first.address, second.address) == ("10.0.0.1", "10.0.0.2")


@pytest.mark.process
def test_guest_does_not_outlive_the_tests(tmp_path: Path) -> None:
    """Not even if the process of the tests is killed."""
    fake(tmp_path, "import os", "open(sys.argv[0] + '.pid', 'w').write(str(os.getpid()))", "time.sleep(1000)")
    script = (
        "import os, pathlib, sys, time\n"
        "from tests.rdma.machine.guest import Guest\n"
        "from tests.rdma.machine.image import Image\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "Guest(Image(folder / 'emulator', [], {}, folder / 'kernel', folder / 'file-system'), folder)\n"
        "while not (folder / 'emulator.pid').exists() or not (folder / 'emulator.pid').read_text():\n"
        "    time.sleep(0.01)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=root, timeout=120)
    pid = int((tmp_path / "emulator.pid").read_text())
    end = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_other_processor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(PackagesMissing, match=r"an x86-64 processor .* \(this one is aarch64\)"):
        packages.check_host()


def test_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PackagesMissing, match=r"^apt-get, which fetches Debian's packages"):
        packages.check_host()


@pytest.mark.process
def test_packages_that_can_not_be_had_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No half-made image is left in the folder for caches."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for tool in packages.TOOLS:
        (tmp_path / tool).write_text("#!/bin/sh\necho 'E: Unable to locate package' >&2\nexit 100\n")
        (tmp_path / tool).chmod(0o755)
    cache = tmp_path / "cache"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("FANIN_CACHE_DIR", str(cache))
    with pytest.raises(PackagesMissing, match=r"Debian's packages .*apt-get --simulate: E: Unable to locate package"):
        image_module.image()
    assert list(cache.iterdir()) == []
