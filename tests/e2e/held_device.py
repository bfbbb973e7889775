"""A device over RDMA with delayed results, and its rank (held_rank.py, held_job.py)."""

import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.fabrics import BOUND_S, eventually
from tests.e2e.rank_processes import ROOT
from tests.e2e.relay import Relay

HeldRank = subprocess.Popen[str]


class HeldDevice:
    """A device at `port` of this host that holds results back while `file` exists (programs/held_writes.c).
    host_device: the verbs device of its ranks."""

    def __init__(self, port: int, host_device: str, file: Path) -> None:
        self._port, self._host_device, self._file = port, host_device, file
        self._holds, self._gone = Path(f"{file}.holds"), Path(f"{file}.gone")

    @contextmanager
    def rank(self, program: str, what: str, variables: Mapping[str, str]) -> Iterator[tuple[Relay, HeldRank]]:
        """A rank whose results are held back already, and the connection to it."""
        for mark in (self._holds, self._gone):
            mark.unlink(missing_ok=True)
        pipe = subprocess.PIPE
        with Relay(self._port) as relay:
            address = f"rdma://{self._host_device}@127.0.0.1:{relay.port}"
            line = [sys.executable, "-m", f"tests.e2e.{program}", address, str(self._file), what]
            with subprocess.Popen(
                line, cwd=ROOT, env=dict(variables), stdin=pipe, stdout=pipe, stderr=pipe, text=True
            ) as process:
                try:
                    assert line_of(process) == "posted"
                    eventually(self._holds.exists, bool)
                    yield relay, process
                finally:
                    self._file.unlink(missing_ok=True)
                    process.kill()

    def let_go(self) -> None:
        """Release the results. Returns when they are posted."""
        self.begin_to_let_go()
        eventually(self._gone.exists, bool)

    def begin_to_let_go(self) -> None:
        """Release the results, as soon as the device runs."""
        self._file.unlink()


def line_of(process: HeldRank) -> str:
    """The next line of a rank, which prints one and waits."""
    assert process.stdout is not None
    assert process.stderr is not None
    if not select.select([process.stdout], [], [], BOUND_S)[0]:
        raise AssertionError(f"the rank has said nothing for {BOUND_S:g} s")
    line = process.stdout.readline().strip()
    assert line, process.stderr.read()
    return line


def tell(process: HeldRank) -> None:
    """Let the rank take its next step."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
