"""A rank in a process of its own, as the target of a fault: it joins a job and reduces.

Arguments: job file, rank, control socket, elements of f32, and optionally the number of reductions; else it goes on
until an error. It prints "joined"; "looping" after the first result; at the end the name of the error, if any.
"""

import contextlib
import itertools
import sys

import numpy as np

import fanin


def main() -> None:
    job, rank, socket, elements, *times = sys.argv[1:]
    with contextlib.closing(fanin.Communicator(fanin.Job.from_file(job), int(rank), socket)) as communicator:
        print("joined", flush=True)
        source, result = np.ones(int(elements), "f4"), np.empty(int(elements), "f4")
        for number in range(int(times[0])) if times else itertools.count():
            communicator.allreduce(source, out=result)
            if number == 0:
                print("looping", flush=True)


if __name__ == "__main__":
    try:
        main()
    except fanin.FaninError as error:
        print(type(error).__name__, flush=True)
