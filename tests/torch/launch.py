"""The processes of a test: ranks as torchrun starts them, and the NIC by which they go."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).parents[2]
BOUND_S = 120.0  # longest that a test may take


class Ranks:
    """Ranks of one job. sockets: of the NICs, for FANIN_SOCKET; none: the ranks have none. expected: exit codes."""

    def __init__(self, program: str, size: int, sockets: list[str], **environment: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)} | environment
        common |= {"FANIN_SOCKET": ":".join(sockets)} if sockets else {}
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.torch.rank", program],
                cwd=ROOT,
                env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for rank in range(size)
        ]

    def line(self, rank: int) -> str:
        """The next line of a rank."""
        output = self.processes[rank].stdout
        assert output is not None
        return output.readline().strip()

    def tell(self, rank: int) -> None:
        """An empty line for a rank."""
        pipe = self.processes[rank].stdin
        assert pipe is not None
        print(file=pipe, flush=True)

    def finish(self, *ranks: int) -> list[str]:
        """They end well. What they have written to their error output. When one fails, the others are ended."""
        wanted = ranks or tuple(range(len(self.processes)))
        with ThreadPoolExecutor(len(wanted)) as readers:
            ends = {readers.submit(self._end, rank): rank for rank in wanted}
            for end in as_completed(ends):
                if self.processes[ends[end]].returncode:
                    self._kill()
        outputs = {rank: end.result() for end, rank in ends.items()}
        codes = {rank: self.processes[rank].returncode for rank in wanted}
        texts = "\n".join(
            f"rank {rank}, exit code {codes[rank]}: {output}{error}" for rank, (output, error) in outputs.items()
        )
        assert all(code == 0 for code in codes.values()), texts
        assert [output.split()[-1:] for output, _ in outputs.values()] == [["ok"]] * len(wanted), texts
        return [error for _, error in outputs.values()]

    def _end(self, rank: int) -> tuple[str, str]:
        try:
            return self.processes[rank].communicate(timeout=BOUND_S)
        except subprocess.TimeoutExpired:
            self._kill()
            return self.processes[rank].communicate()

    def _kill(self) -> None:
        for process in self.processes:
            process.kill()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def run(program: str, size: int, sockets: list[str], **environment: str) -> list[str]:
    """Run ranks to their good end."""
    with Ranks(program, size, sockets, **environment) as ranks:
        return ranks.finish()
