"""Programs for arm64 as processes of this kernel: each in a `namespace`, with the folders that it needs."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

from fanin_image.packages import NotPossible
from fanin_image.wheels import CHECKOUT, python_name

from . import namespace
from .image import Image

LAST_LINES = 15


class StepFailed(Exception):
    """A program of a step has failed. The message has its last lines."""


class Ended(NamedTuple):
    """A successful program: its output, and its run time in seconds."""

    output: str
    seconds: float


@dataclass
class Machine:
    """work: a folder that programs on both sides see. processes: started ones."""

    image: Image
    work: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def fanin(self) -> Path:
        """The folder of Fanin's packages for arm64."""
        return self.work / "fanin"

    @property
    def code(self) -> Path:
        """The cache folder of programs for arm64: only what another machine would get."""
        return self.image.folder / "code"

    @property
    def code_of_tests(self) -> Path:
        """The same with the further code of tests: functions that no device calls directly."""
        return self.image.folder / "code-of-tests"

    def log(self, name: str) -> Path:
        """The output file of a program, kept until the next run."""
        folder = self.image.folder / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.log"

    @property
    def python(self) -> str:
        return f"/usr/bin/{python_name()}"

    @property
    def root(self) -> namespace.Root:
        shared = [str(path) for path in (self.image.folder, self.work, CHECKOUT)]
        return namespace.Root(str(self.image.root), str(self.image.emulator), shared)

    def environment(self) -> dict[str, str]:
        return {
            "FANIN_CACHE_DIR": str(self.code),
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PATH": f"/usr/bin:/usr/sbin:{self.image.compiler.parent}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{self.fanin}:{self.image.site}",
            "TMPDIR": "/tmp",
            "XDG_RUNTIME_DIR": str(self.work / "run"),
        }

    def start(
        self,
        command: Sequence[str],
        output: IO[bytes],
        *,
        emulated: bool = True,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[bytes]:
        """Start a program in its own namespace, which ends with it.

        Args:
            emulated: for arm64; else a program of this machine, with this machine's environment.
            variables: of its environment, beside or instead of the usual ones.
        """
        description = self.work / f"root-{len(self.processes)}.json"
        line = namespace.command_in(self.root, description, command, emulated=emulated)
        given = {**(self.environment() if emulated else os.environ), **variables}
        process = subprocess.Popen(
            line, cwd=CHECKOUT, env=given, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        self.processes.append(process)
        return process

    def run(self, name: str, command: Sequence[str], seconds: float, **options: Any) -> Ended:
        """Run a program to its end. Its output also goes to `log(name)`. options: of `start`.

        Raises StepFailed if it fails, or does not end within so many seconds; NotPossible without a namespace.
        """
        log, begin = self.log(name), time.monotonic()
        with log.open("wb") as output:
            process = self.start(command, output, **options)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                stop(process)
                raise StepFailed(f"{name} has not ended within {seconds:.0f} s; {last_lines(log)}") from None
        if code == namespace.FAILED:
            raise NotPossible(last_lines(log))
        if code:
            raise StepFailed(f"{name} ended with exit code {code}; {last_lines(log)}")
        return Ended(log.read_text(errors="replace"), time.monotonic() - begin)

    def close(self) -> None:
        for process in self.processes:
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a namespace with its processes."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """Processor time of a running process and its children, which other load does not lengthen."""
    left, ticks = [process.pid], 0
    while left:
        folder = Path(f"/proc/{left.pop()}")
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            ticks += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:13]))
            for thread in (folder / "task").iterdir():
                left += map(int, (thread / "children").read_text().split())
    return ticks / os.sysconf("SC_CLK_TCK")


def last_lines(log: Path) -> str:
    """The end of a log, and its path."""
    lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    return "\n".join([f"{log} ends with:", *lines])


def check_namespaces(work: Path) -> None:
    """Raises NotPossible if this kernel, or its settings, give no namespace that emulates."""
    empty = work / "empty"
    (empty / "tmp").mkdir(parents=True)
    root = namespace.Root(str(empty), sys.executable, [])  # any program: nothing is emulated
    command = namespace.command_in(root, work / "empty.json", ["/bin/true"], emulated=False)
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        raise NotPossible((done.stderr or done.stdout).strip().splitlines()[-1])
