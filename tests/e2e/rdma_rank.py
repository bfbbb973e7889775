"""A rank over RDMA: `python -m tests.e2e.rdma_rank JOB RANK ADDRESS WHAT`.

WHAT is `refused`: calls that a device over RDMA can not serve; `many`: more requests and completions than rings hold;
`overrun`: the same without taking them, in a job of its own; `numbers`: queues that are made and destroyed. Each line
of output is "ready", or the name of an error with its text.
"""

import contextlib
import sys

import numpy as np

import fanin
from fanin.errors import CqOverrun
from fanin.verbs import CQ, PD, CollectiveQP, Context, Membership
from fanin_wire.abi import CQ_DEPTH, SQ_DEPTH
from tests.host.work_requests import post_patiently, request_over

ELEMENTS = 20_000
SECONDS = 100.0
QUEUES = 32  # of a kind, of a client over RDMA


def refused(communicator: fanin.Communicator) -> None:
    """What is behind a fence uses no buffer; in registered memory it is right."""
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
    """Rings wrap."""
    requests = [communicator.iallreduce(np.full(9, number)) for number in range(3 * SQ_DEPTH)]
    for number, request in enumerate(requests):
        assert (request.wait() == number * communicator.size).all()
    for _ in range(CQ_DEPTH + CQ_DEPTH // 4):
        communicator.barrier()
    print("ready", flush=True)


def overrun(address: str) -> None:
    """Completions that nobody takes: those with room, then the error."""
    with contextlib.closing(Context(address)) as context:
        cq = CQ(context)
        queue_pair = CollectiveQP(PD(context), cq)
        queue_pair.join(Membership(jid=13, key=1, slots=8, chunk=256), SECONDS)
        for _ in range(CQ_DEPTH + 1):
            post_patiently(queue_pair, request_over(0, 0, 0))
        with contextlib.suppress(CqOverrun):
            cq.wait(SECONDS, seen=CQ_DEPTH)  # completions taken too early would make room
        while cq.wait(SECONDS):
            cq.poll(64)


def numbers(address: str) -> None:
    """A new queue gets the number that was free longest; all numbers are used."""
    with contextlib.closing(Context(address)) as context, contextlib.closing(CQ(context)) as kept:
        found = [kept.index]
        for _ in range(2 * QUEUES - 2):
            with contextlib.closing(CQ(context)) as cq, contextlib.closing(CollectiveQP(PD(context), cq)) as queue_pair:
                found.append(cq.index)
                assert queue_pair.qp_num == (len(found) - 2) % QUEUES, (queue_pair.qp_num, found)
    assert found == [0, *range(1, QUEUES), *range(1, QUEUES)], found
    print("ready", flush=True)


def say(error: fanin.FaninError) -> None:
    print(type(error).__name__, error, flush=True)


ALONE = {"overrun": overrun, "numbers": numbers}


def main(job: str, rank: str, address: str, what: str) -> None:
    try:
        if what in ALONE:
            ALONE[what](address)
            return
        with fanin.Communicator(fanin.Job.from_file(job), int(rank), address) as communicator:
            {"refused": refused, "many": many}[what](communicator)
    except fanin.FaninError as error:
        say(error)


main(*sys.argv[1:])
