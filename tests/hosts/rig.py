"""Four hosts, made with `ip` and not with `fanin fabric`: network namespaces on a bridge of the kernel, each with a
file system and a name of its own. A program `ssh` enters them, so that the commands of docs/several-hosts.md run as
they are.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import ROOT, Block, blocks_of
from tests.ethernet import Ethernet

PAGE = ROOT / "docs/several-hosts.md"
HERE = Path(__file__).parent
UNITS = ROOT / "deploy/systemd"
NAMES = ("node1", "node2", "node3", "node4")
BOUND_S = 200.0
SSH = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do
    case $1 in -[BbcDEeFIiJLlmOoPpQRSWw]) shift ;; esac
    shift
done
host=$1
shift
case $host in
{cases}
*) echo "ssh: Could not resolve hostname $host" >&2; exit 255 ;;
esac
exec nsenter --target="$process" --net --mount --uts --root --wd -- sh -c "cd; $*"
"""


@dataclass
class Hosts:
    """The hosts that are up. folder: where the commands of the page are typed."""

    folder: Path
    ethernet: Ethernet

    def run(self, command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command line where the page's commands are typed."""
        return self._call(["bash", "-euo", "pipefail", "-c", command], check)

    def _call(self, line: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        variables = os.environ | as_root | {"PATH": path, "COLUMNS": "120"}
        ended = subprocess.run(line, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=BOUND_S)
        assert ended.returncode == 0 or not check, f"{line[-1]}\n{ended.stdout}{ended.stderr}"
        return ended


def needs(*programs: str) -> str:
    """Which of the programs, and of those that the hosts need, are not there; "" if all are."""
    wanted = ("ip", "nsenter", "unshare", "nft", *programs)
    return ", ".join(each for each in wanted if shutil.which(each) is None)


@contextlib.contextmanager
def hosts(mtu: int) -> Iterator[Hosts]:
    """Four hosts without devices. All that was started on them is ended."""
    folder = Path(tempfile.mkdtemp(prefix="fanin-hosts-", dir="/tmp"))
    made = Hosts(folder, Ethernet(f"h{os.getpid()}", mtu))
    booted: list[subprocess.Popen[str]] = []
    try:
        for number, name in enumerate(NAMES, start=1):
            made.ethernet.add(name, f"10.0.0.{number}")
        _write_files(folder)
        for name in NAMES:
            booted.append(_boot(made, name))
        cases = "\n".join(f"{name}) process={host.pid} ;;" for name, host in zip(NAMES, booted, strict=True))
        (folder / "bin/ssh").write_text(SSH.format(cases=cases))
        (folder / "bin/ssh").chmod(0o700)
        for name in NAMES:
            made.run(f"ssh {name} 'cat > /usr/local/bin/ssh && chmod +x /usr/local/bin/ssh' < bin/ssh")
        yield made
    finally:
        for name in NAMES:
            _end_all(made.ethernet.namespace(name))
        for host in booted:
            host.wait()
        made.ethernet.close()
        shutil.rmtree(folder)


def _write_files(folder: Path) -> None:
    """What each host finds at its boot, and what the user of the page has."""
    (folder / "bin").mkdir()
    (folder / "units").mkdir()
    for unit in UNITS.glob("fanin-*@.service"):
        shutil.copy(unit, folder / "units")
    shutil.copy(HERE / "systemctl.sh", folder / "systemctl")
    (folder / "systemctl").chmod(0o755)
    names = [f"10.0.0.{number} {name}" for number, name in enumerate(NAMES, start=1)]
    (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
    for block in blocks_of(PAGE):
        if block.language == "toml":
            (folder / "hosts.toml").write_text(block.text)
        if block.language == "python":
            (folder / "program.py").write_text(block.text)


def _boot(made: Hosts, name: str) -> subprocess.Popen[str]:
    work = made.folder / name
    (work / "layers").mkdir(parents=True)
    for shared in ("units", "hosts", "systemctl"):
        (work / shared).symlink_to(made.folder / shared)
    inside = ["ip", "netns", "exec", made.ethernet.namespace(name), "unshare", "--mount", "--uts"]
    line = [*inside, "sh", str(HERE / "boot_host.sh"), str(work), name, sys.prefix]
    host = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    host.stdout.close()
    return host


def _end_all(namespace: str) -> None:
    found = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True)
    for process in found.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)


def commands(containing: str) -> list[Block]:
    """The blocks of the page for the shell that this folder runs, with some words in them."""
    found = [block for block in blocks_of(PAGE) if block.reason == "tests/hosts runs it" and containing in block.text]
    assert found, f"{PAGE} has no block with {containing!r}"
    return found
