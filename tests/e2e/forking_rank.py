"""A rank that joins and forks as programs in C do: nothing in its child closes the device's socket.

python -m tests.e2e.forking_rank JOB_FILE RANK SOCKET prints the child's PID.
"""

import ctypes
import signal
import sys

from fanin import Communicator, Job


def main() -> None:
    path, rank, socket = sys.argv[1:]
    member = Communicator(Job.from_file(path), int(rank), socket)
    member.barrier()
    if child := ctypes.PyDLL(None).fork():
        print(child, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
