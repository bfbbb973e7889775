"""systemd as process 1 of a machine of its own, on this one: `boot_systemd.sh` in namespaces and control groups."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2]
UNITS = SOURCES / "deploy/systemd"
BOOT = Path(__file__).with_name("boot_systemd.sh")
SYSTEMD = Path("/lib/systemd/systemd")
GROUPS = Path("/sys/fs/cgroup")
SECONDS = 120.0
TARGETS = ("basic", "sysinit", "shutdown", "multi-user", "network-online")
NO_MORE = "[Unit]\nDefaultDependencies=no\n"
PACKAGES = [f"/opt/fanin-sources/{name}" for name in ("protocol", "device", "host", "tools")]
# /opt/fanin/bin of an installation, over the sources of this checkout.
ENTRIES = {
    "fanin-nic": "from fanin_nic.daemon.main import nic as main",
    "fanin-switch": "from fanin_nic.daemon.main import switch as main",
    "fanin": "from fanin_tools.cli.app import main",
}
USER = "fanin:x:977:977::/:/usr/sbin/nologin\n"


class PrivateSystemd:
    """A booted systemd. root: its root folder, as this machine sees it."""

    def __init__(self, process: int) -> None:
        self._process = process
        self.root = Path(f"/proc/{process}/root")

    def systemctl(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.command("systemctl", "--no-pager", *words, check=check)

    def command(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", f"--target={self._process}", "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup"]
        return subprocess.run([*enter, *words], capture_output=True, text=True, timeout=SECONDS, check=check)

    def show(self, unit: str, name: str) -> str:
        return self.systemctl("show", f"--property={name}", "--value", unit).stdout.strip()

    def process_of(self, unit: str) -> int:
        """Main process of a unit, by its number on this machine; 0: none."""
        inner = self.show(unit, "MainPID")
        for folder in Path("/proc").iterdir() if inner != "0" else ():
            with contextlib.suppress(OSError, StopIteration):
                lines = (folder / "status").read_text().splitlines()
                numbers = next(line for line in lines if line.startswith("NSpid:")).split()[1:]
                if numbers[-1] == inner and len(numbers) > 1 and _namespace(folder) == _namespace(self.root.parent):
                    return int(numbers[0])
        return 0


def _namespace(process: Path) -> str:
    return os.readlink(process / "ns/pid")


def require() -> None:
    """Skip if it is not possible here."""
    if not SYSTEMD.exists() or not shutil.which("nsenter"):
        pytest.skip("systemd and util-linux")
    command = ["unshare", "--mount", "--pid", "--fork", "--cgroup", "--net", "mount", "-t", "tmpfs", "none", "/mnt"]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("the right to make mounts and namespaces (root)")
    if not any((folder / "cgroup.procs").exists() for folder in _hierarchies()):
        pytest.skip("control groups that systemd can have")


def _hierarchies() -> list[Path]:
    """systemd's groups: the one tree of version 2, or those beside version 1."""
    if (GROUPS / "cgroup.controllers").exists():
        return [GROUPS]
    return [GROUPS / name for name in ("systemd", "unified") if (GROUPS / name).exists()]


@contextlib.contextmanager
def booted(work: Path, cache: Path, files: dict[str, str]) -> Iterator[PrivateSystemd]:
    """Boot, and end all of it after the block.

    work: an empty folder. cache: folder of compiled code, for /var/cache/fanin. files: further files of its root, by
    path.
    """
    _prepare(work, cache, files)
    groups = [folder / f"fanin-test-{os.getpid()}" for folder in _hierarchies()]
    for group in groups:
        group.mkdir()

    def enter_groups() -> None:
        for group in groups:
            (group / "cgroup.procs").write_text("0")

    kinds = ["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup"]
    command = ["unshare", *kinds, "--fork", "--kill-child", "--propagation=private", "sh", str(BOOT), str(work)]
    with (work / "log").open("wb") as log:
        outer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=enter_groups)
        try:
            yield _wait(outer, work / "log")
        finally:
            outer.send_signal(signal.SIGKILL)  # the kernel then ends process 1, and with it all others
            outer.wait()
            for group in groups:
                _remove(group)


def _wait(outer: subprocess.Popen[bytes], log: Path) -> PrivateSystemd:
    """The booted systemd, once it answers."""
    end = time.monotonic() + SECONDS
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    while time.monotonic() < end and outer.poll() is None:
        if numbers := children.read_text().split():
            machine = PrivateSystemd(int(numbers[0]))
            state = machine.systemctl("is-system-running", check=False).stdout.strip()
            if state in ("running", "degraded"):
                return machine
        time.sleep(0.1)
    raise AssertionError(f"systemd has not booted: {log.read_text(errors='replace')}")


def _remove(group: Path) -> None:
    """With those in it; their processes have been killed."""
    end = time.monotonic() + SECONDS
    for folder in sorted([group, *(path for path in group.rglob("*") if path.is_dir())], reverse=True):
        while True:
            try:
                folder.rmdir()
                break
            except OSError:  # the kernel still removes a process
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


def _prepare(work: Path, cache: Path, files: dict[str, str]) -> None:
    """For boot_systemd.sh."""
    for name in ("layers", "units", "root/etc", "root/opt/fanin/bin", "root/var/cache"):
        (work / name).mkdir(parents=True)
    (work / "sources").symlink_to(SOURCES)
    for target in TARGETS:
        (work / f"units/{target}.target").write_text(NO_MORE)
    for unit in UNITS.glob("*.service"):
        shutil.copy(unit, work / "units")
    for name, line in (("passwd", USER), ("group", "fanin:x:977:\n")):
        (work / "root/etc" / name).write_text(Path("/etc", name).read_text() + line)
    # Services see no home, where the interpreter may be: it gets another place.
    (work / "python").symlink_to(sys.base_prefix)
    libraries = Path(sysconfig.get_path("purelib"))
    inner = (
        Path("/opt/fanin-sources", libraries.relative_to(SOURCES)) if libraries.is_relative_to(SOURCES) else libraries
    )
    path = ":".join([*PACKAGES, str(inner)])
    python = f"/opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    for name, line in ENTRIES.items():
        entry = work / "root/opt/fanin/bin" / name
        entry.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {python} -c "{line}; main()" "$@"\n')
        entry.chmod(0o755)
    shutil.copytree(cache, work / "root/var/cache/fanin" / cache.name)
    for path, text in files.items():
        place = work / "root" / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for folder, _, _ in os.walk(work / "root"):
        Path(folder).chmod(0o755)
