"""The peer's side of the measurement: run by mpiexec with the peer's own Python (mpi4py and numpy, nothing of ours).

Arguments: pairs SIZE REPETITIONS. Rank 0 prints one JSON object: size -> times[rank][repetition] in nanoseconds.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from mpi4py import MPI


def measure(communicator: MPI.Comm, size: int, repeat: int) -> list[int]:
    """Times of `repeat` allreduces of `size` bytes of f32, after one that does not count."""
    source, result = np.ones(size // 4, np.float32), np.empty(size // 4, np.float32)
    communicator.Allreduce(source, result)
    times = []
    for _ in range(repeat):
        start = time.monotonic_ns()
        communicator.Allreduce(source, result)
        times.append(time.monotonic_ns() - start)
    return times


def main() -> None:
    """Measure every size, print on rank 0."""
    communicator = MPI.COMM_WORLD
    numbers = [int(word) for word in sys.argv[1:]]
    times = {}
    for size, repeat in zip(numbers[::2], numbers[1::2], strict=True):
        times[size] = communicator.gather(measure(communicator, size, repeat))
    if communicator.rank == 0:
        print(json.dumps(times))


if __name__ == "__main__":
    main()
