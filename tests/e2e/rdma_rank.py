"""A rank over RDMA: `rdma_rank.py JOB RANK ADDRESS WHAT`.

WHAT is `work`: allreduce after allreduce, each checked, until one fails; `refused`: calls that a device over RDMA can
not serve; `many`: more requests than a send ring holds, then more completions than a completion ring does. Each line of
output is "ready", or the name of an error with its text.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import fanin
from fanin_wire.abi import CQ_DEPTH, SQ_DEPTH

ELEMENTS = 20_000
SECONDS = 100.0


def work(communicator: fanin.Communicator) -> None:
    """Until a call fails."""
    expected = np.arange(ELEMENTS, dtype="i8") * communicator.size
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = communicator.allreduce(np.arange(ELEMENTS, dtype="i8"))
        assert np.array_equal(found, expected)
        print("ready", flush=True)


def refused(communicator: fanin.Communicator) -> None:
    """What is behind a fence goes through no buffer; in registered memory it is right."""
    ordinary = np.ones(ELEMENTS, dtype="i8")
    try:
        communicator.iallreduce(ordinary, fence=True).wait()
    except fanin.FaninError as error:
        say(error)
    memory = communicator.alloc(ELEMENTS, np.int64)
    memory[:] = 1
    communicator.iallreduce(memory, out=memory, fence=True).wait()
    assert (memory == communicator.size).all()
    print("ready", flush=True)


def many(communicator: fanin.Communicator) -> None:
    """Rings are filled over their ends."""
    requests = [communicator.iallreduce(np.full(9, number)) for number in range(3 * SQ_DEPTH)]
    for number, request in enumerate(requests):
        assert (request.wait() == number * communicator.size).all()
    for _ in range(CQ_DEPTH + CQ_DEPTH // 4):
        communicator.barrier()
    print("ready", flush=True)


def say(error: fanin.FaninError) -> None:
    """The error in one line."""
    print(type(error).__name__, error, flush=True)


def main(job: str, rank: str, address: str, what: str) -> None:
    try:
        with fanin.Communicator(fanin.Job.from_file(job), int(rank), address) as communicator:
            {"work": work, "refused": refused, "many": many}[what](communicator)
    except fanin.FaninError as error:
        say(error)


main(*sys.argv[1:])
