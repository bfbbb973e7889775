"""A rank with a fake library, as the peer of a session. Arguments: SOCKET RANK SIZE CONDUCT (good, wrong, dies)."""

import functools
import socket
import sys
from typing import Any

import numpy as np

from fanin_tools.bench import rank_program


class FakeLibrary:
    """Knows the data of all ranks, which do not communicate. conduct: wrong: of one element too few."""

    def __init__(self, rank: int, size: int, conduct: str = "good") -> None:
        self.rank, self.size, self.conduct = rank, size, conduct

    def array(self, count: int) -> np.ndarray:
        return np.empty(count, np.float32)

    def allreduce(self, source: np.ndarray, result: np.ndarray) -> functools.partial[Any]:
        return functools.partial(self._allreduce, source, result)

    def _allreduce(self, source: np.ndarray, result: np.ndarray) -> None:
        if self.conduct == "dies":
            sys.exit("no more of this")
        result[:] = (source - self.rank) * self.size + sum(range(self.size))
        if self.conduct == "wrong":
            result[-1] += 1


def main() -> None:
    path, rank, size, conduct = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    rank_program.serve(FakeLibrary(int(rank), int(size), conduct), connection)


if __name__ == "__main__":
    main()
