"""A rank in a process of its own, as the target of a fault. It joins a job and reduces in a loop until an error.

Arguments: job file, rank, control socket, elements of f32. Lines of output: "joined"; "looping" after the first result;
at the end the name of the error.
"""

from __future__ import annotations

import sys

import numpy as np

import fanin


def main() -> None:
    """Entry point of the module."""
    job, rank, socket, elements = sys.argv[1:]
    communicator = fanin.Communicator(fanin.Job.from_file(job), int(rank), socket)
    print("joined", flush=True)
    source, result = np.ones(int(elements), "f4"), np.empty(int(elements), "f4")
    communicator.allreduce(source, out=result)
    print("looping", flush=True)
    while True:
        communicator.allreduce(source, out=result)


if __name__ == "__main__":
    try:
        main()
    except fanin.FaninError as error:
        print(type(error).__name__, flush=True)
