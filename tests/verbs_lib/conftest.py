"""Verbs programs of Debian, unchanged, on the NICs of a fabric."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fanin.verbs_lib import library_path
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench
from tests.waiting import BOUND_S

PACKAGES = {"ibv_": "ibverbs-utils", "ib_": "perftest"}  # by the beginning of a program's name
PROGRAMS = Path(__file__).with_name("programs")
HEADER = Path("/usr/include/infiniband/verbs.h")
POLL_S = 0.02
LISTENING = "0A"  # in /proc/net/tcp
Ended = subprocess.CompletedProcess[str]


@dataclass
class Programs:
    """Runs programs with the library: the devices fanin0 and fanin1 are two NICs of one fabric."""

    running: Running

    def variables(self) -> dict[str, str]:
        sockets = ":".join(str(self.running.state.socket(nic.name)) for nic in self.running.fabric.nics)
        return os.environ | {"FANIN_SOCKET": sockets, "LD_PRELOAD": str(library_path())}

    def run(self, *command: str | Path, cwd: Path | None = None, **more: str) -> Ended:
        return subprocess.run(
            [require(command[0]), *command[1:]],
            env=self.variables() | more,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
        )

    def started(self, *command: str | Path, variables: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A program that goes on, with pipes."""
        pipe, environment = subprocess.PIPE, variables or self.variables()
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def run_pair(self, *command: str) -> tuple[Ended, Ended]:
        """The server of a test program on fanin0, its client on fanin1; they use a port of this machine."""
        port = free_port()
        line = [require(command[0]), *command[1:], "-p", str(port)]
        server = subprocess.Popen(
            [*line, "-d", "fanin0"], env=self.variables(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            await_listener(port, server)
            client = self.run(*line, "-d", "fanin1", "127.0.0.1")
            output, _ = server.communicate(timeout=BOUND_S)
        finally:
            server.kill()
            server.wait()
        return Ended(server.args, server.returncode, output, ""), client


@pytest.fixture(scope="module")
def programs(bench: Bench) -> Programs:
    return Programs(bench.up(Shape(2, 2)))


def require(program: str | Path) -> str:
    """The path of a program; skips if it is missing."""
    found = shutil.which(program)
    if found is None:
        package = next((package for prefix, package in PACKAGES.items() if str(program).startswith(prefix)), None)
        pytest.skip(f"{program}" + (f" (Debian: {package})" if package else ""))
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def await_listener(port: int, server: subprocess.Popen[str]) -> None:
    """Return when the server listens, or has ended. A connection would replace its client's."""
    rows = re.compile(rf"^\s*\d+: \w+:{port:04X} \w+:\w+ {LISTENING} ", re.M)
    deadline = time.monotonic() + BOUND_S
    while server.poll() is None and not any(
        rows.search(Path(f"/proc/net/{table}").read_text()) for table in ("tcp", "tcp6")
    ):
        assert time.monotonic() < deadline, "the server does not listen"
        time.sleep(POLL_S)


def build(name: str, folder: Path, link: Sequence[str] = ("-libverbs",)) -> Path:
    """A program of ours, compiled with the real header and libibverbs."""
    if not HEADER.exists():
        pytest.skip(f"{HEADER} (Debian: libibverbs-dev)")
    target = folder / Path(name).stem
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-rdynamic"]
    subprocess.run([require("cc"), *flags, PROGRAMS / name, "-o", target, *link], check=True)
    return target
