"""The processes of a test: ranks with torchrun's environment, or torchrun itself, and their NIC.

The ranks are forked from a server that has loaded torch once, which takes seconds of a core. The server ends with the
process of the tests.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.waiting import TORCH_BOUND_S

ROOT = Path(__file__).parents[2]
GRACE_S = 60.0  # for the other ranks, when one has failed

forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(["tests.torch.rank"])


def _run_rank(program: str, environment: dict[str, str], output: Path, to_test: Connection) -> None:
    """In a forked process. The process of the tests does not load torch."""
    from tests.torch import rank

    rank.run_forked(program, environment, output, to_test)


class Ranks:
    """Of one job. sockets: of the NICs, for FANIN_SOCKET; none: the ranks have none."""

    def __init__(self, program: str, size: int, sockets: list[str], **environment: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)} | environment
        common |= {"FANIN_SOCKET": ":".join(sockets)} if sockets else {}
        self._folder = tempfile.TemporaryDirectory(prefix="fanin-ranks-")
        self.processes, self._connections = [], []
        for rank in range(size):
            ours, theirs = forks.Pipe()
            own = dict(os.environ) | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            process = forks.Process(target=_run_rank, args=(program, own, self._output(rank), theirs))
            process.start()
            theirs.close()
            self.processes.append(process)
            self._connections.append(ours)

    def _output(self, rank: int) -> Path:
        return Path(self._folder.name) / f"rank{rank}"

    def line(self, rank: int) -> str:
        """The next message of a rank."""
        return str(self._connections[rank].recv())

    def tell(self, rank: int) -> None:
        """Let a rank go on."""
        self._connections[rank].send(None)

    def finish(self, *ranks: int, code: int = 0) -> list[str]:
        """Wait until all end with this exit code; their error output. If one does not, the others may report it."""
        wanted = ranks or tuple(range(len(self.processes)))
        pending: dict[Any, Any] = {self.processes[rank].sentinel: self.processes[rank] for rank in wanted}
        bound = TORCH_BOUND_S
        while pending:
            ended = [pending.pop(sentinel) for sentinel in connection.wait(list(pending), bound)]
            for process in ended:
                process.join()
            if not ended:
                self._kill()
            elif any(process.exitcode != code for process in ended):
                bound = GRACE_S
        errors = [self._output(rank).with_suffix(".err").read_text() for rank in wanted]
        codes = [self.processes[rank].exitcode for rank in wanted]
        said = "\n".join(f"rank {rank}: {error}" for rank, error in zip(wanted, errors, strict=True))
        assert codes == [code] * len(wanted), f"exit codes {codes}\n{said}"
        return errors

    def killed(self, rank: int) -> None:
        """SIGKILL for a rank, or the end of one that sends it to itself."""
        if self.processes[rank].exitcode is None:
            self.processes[rank].kill()
        self.processes[rank].join()
        assert self.processes[rank].exitcode == -signal.SIGKILL

    def _kill(self) -> None:
        for process in self.processes:
            process.kill()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        for process in self.processes:
            process.join()
        self._folder.cleanup()


def torchrun(size: int, *command: str, **environment: str) -> str:
    """The output of a program that plain torchrun runs well. Unless `environment` does, nothing names a NIC."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("FANIN_")}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    done = subprocess.run(
        [*launcher, *command],
        cwd=ROOT,
        env=own | {"OMP_NUM_THREADS": "1", "FANIN_TORCH_KEEP": "0"} | environment,
        capture_output=True,
        text=True,
        timeout=TORCH_BOUND_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(program: str, size: int, sockets: list[str], **environment: str) -> list[str]:
    """Ranks, which must end well."""
    with Ranks(program, size, sockets, **environment) as ranks:
        return ranks.finish()
