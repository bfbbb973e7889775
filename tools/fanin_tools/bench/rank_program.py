"""One rank of a contender, run by the contender's Python with numpy and the contender's library only.

Arguments: KIND SOCKET. KIND is "registered" or "ordinary" (memory, with fanin), or "mpi" (with mpi4py). The rank
connects to the UNIX socket, sends {"rank", "size"}, and answers each command, a line of JSON, by one line:

| do | arguments | reply |
| --- | --- | --- |
| prepare | count (elements), warm (calls), collective (of MPI, by its name; else allreduce) | |
| time | warm, repeat | ns: time of each call |
| verify | | wrong: elements of the last result with a wrong bit |
| release | | |

Between commands the rank sleeps in a read, so that a contender that waits takes no time from the one that is measured.
"""

import gc
import json
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

PERIOD = 251  # of the data: whole numbers, whose sums are exact in every order


class Library(Protocol):
    """The library that is measured: its ranks, memory, and allreduce of f32 with SUM."""

    rank: int
    size: int

    def array(self, count: int) -> np.ndarray:
        """Memory for `count` elements."""

    def allreduce(self, source: np.ndarray, result: np.ndarray) -> Callable[[], object]:
        """The blocking call as a function without arguments."""


class Fanin:
    def __init__(self, registered: bool) -> None:
        import fanin

        self._communicator = fanin.Communicator()
        self._registered = registered
        self.rank, self.size = self._communicator.rank, self._communicator.size

    def array(self, count: int) -> np.ndarray:
        return self._communicator.alloc(count, np.float32) if self._registered else np.empty(count, np.float32)

    def allreduce(self, source: np.ndarray, result: np.ndarray) -> Callable[[], object]:
        communicator = self._communicator
        return lambda: communicator.allreduce(source, out=result)


class Mpi:
    """Any MPI; mpi4py initialises it with MPI_THREAD_MULTIPLE."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.world = MPI.COMM_WORLD
        self.rank, self.size = self.world.rank, self.world.size

    def array(self, count: int) -> np.ndarray:
        return np.empty(count, np.float32)

    def allreduce(self, source: np.ndarray, result: np.ndarray) -> Callable[[], object]:
        world = self.world
        return lambda: world.Allreduce(source, result)


class Measured:
    """The arrays of one size, and allreduce on them."""

    def __init__(self, library: Library, count: int) -> None:
        self.source, self.result = library.array(count), library.array(count)
        pattern = np.arange(PERIOD, dtype=np.float32)
        for piece, own in pieces(self.source, pattern + library.rank):
            piece[:] = own
        self.expected = pattern * library.size + sum(range(library.size))
        self.call = library.allreduce(self.source, self.result)

    def time(self, warm: int, repeat: int) -> list[int]:
        """Nanoseconds of each of `repeat` calls, after `warm` that do not count."""
        call, clock = self.call, time.perf_counter_ns
        self.result[:] = -1
        for _ in range(warm):
            call()
        times = []
        for _ in range(repeat):
            start = clock()
            call()
            times.append(clock() - start)
        return times

    def wrong(self) -> int:
        """Number of elements that are not the sum."""
        return sum(int(np.count_nonzero(piece != sums)) for piece, sums in pieces(self.result, self.expected))


def pieces(array: np.ndarray, period: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The whole periods of an array and the rest, each with its part of the period."""
    whole = len(array) // PERIOD * PERIOD
    return [(array[:whole].reshape(-1, PERIOD), period), (array[whole:], period[: len(array) - whole])]


def serve(library: Library, connection: socket.socket) -> None:
    """Carry out commands until the connection ends."""
    measured: Measured | None = None
    with connection, connection.makefile("r") as commands:
        _answer(connection, {"rank": library.rank, "size": library.size})
        for line in commands:
            command = json.loads(line)
            answer: dict[str, Any] = {}
            if command["do"] == "prepare":
                measured = Measured(library, command["count"])
                measured.time(command["warm"], 0)
            elif command["do"] == "release":
                measured = None
            elif measured is not None and command["do"] == "verify":
                answer = {"wrong": measured.wrong()}
            elif measured is not None:
                answer = {"ns": measured.time(command["warm"], command["repeat"])}
            _answer(connection, answer)


def _answer(connection: socket.socket, answer: dict[str, Any]) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")


def main() -> None:
    kind, path = sys.argv[1:]
    library: Library = Mpi() if kind == "mpi" else Fanin(registered=kind == "registered")
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    gc.disable()  # no collection within a call
    serve(library, connection)


if __name__ == "__main__":
    main()
