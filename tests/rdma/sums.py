"""A rank, for the guest: verified allreduces. `python -m tests.rdma.sums COUNT`; with 0 until one fails, whose status
it prints. It prints "begun" after the first."""

import itertools
import sys

import numpy as np

import fanin
from fanin.errors import FaninError

ELEMENTS = 5000


def main() -> None:
    count = int(sys.argv[1])
    with fanin.Communicator() as communicator:
        expected = np.arange(ELEMENTS) * sum(range(communicator.size + 1))
        for number in range(count) if count else itertools.count():
            try:
                total = communicator.allreduce(np.arange(ELEMENTS) * (communicator.rank + 1))
            except FaninError as error:
                print(str(error).partition(":")[0], flush=True)
                return
            assert (total == expected).all()
            if number == 0:
                print("begun", flush=True)


if __name__ == "__main__":
    main()
