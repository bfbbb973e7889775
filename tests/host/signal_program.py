"""Two ranks; an alarm interrupts the first at random times.

Arguments: a job of two ranks as JSON, the socket of its device, a seed, and what the alarm's handler does: "raise" or
"call". All collectives are equal, so a call that was interrupted before its start does not separate the ranks; dup and
split are called on a communicator of the first rank alone, for the same reason. Prints how many collectives were
interrupted, how many calls of dup and split, and how many calls the handler has made.
"""

import contextlib
import json
import random
import signal
import sys
import threading
import time

import numpy as np

import fanin

CALLS, COUNT = 400, 3000
MAX_QUEUES = 8  # of a process on the device
MAX_SECONDS = 0.004  # until the next alarm


class Interrupted(Exception):
    """Raised by the handler."""


def other_rank(job: fanin.Job, socket: str) -> None:
    """Takes part until the sum is 0, sometimes late."""
    lazy, ones = random.Random(1), np.ones(COUNT)
    with fanin.Communicator(job, 1, socket) as communicator:
        assert communicator.split(None) is None
        while communicator.allreduce(ones)[0] != 0:
            if lazy.random() < 0.3:
                time.sleep(lazy.random() * MAX_SECONDS)


def main(description: str, socket: str, seed: str, action: str) -> None:
    job, chance = fanin.Job.from_dict(json.loads(description)), random.Random(int(seed))
    thread = threading.Thread(target=other_rank, args=(job, socket))
    thread.start()
    made = 0
    interrupted = {"collective": 0, "derived": 0}
    is_armed = False  # raise once, and only where it is caught
    with fanin.Communicator(job, 0, socket) as communicator, communicator.split(0) as alone:

        def alarm(*_: object) -> None:
            nonlocal made, is_armed
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, MAX_SECONDS))
            if action == "raise":
                if is_armed:
                    is_armed = False
                    raise Interrupted
                return
            value = chance.randrange(1000)
            assert np.all(communicator.allreduce(np.full(COUNT, float(value))) == value + 1)
            made += 1

        signal.signal(signal.SIGALRM, alarm)
        arrays = [np.empty(COUNT), communicator.alloc(COUNT, "f8")]
        kept = []
        signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
        for number in range(CALLS):
            value, form = float(number), chance.randrange(5)
            kind = "collective" if form < 3 else "derived"
            try:
                is_armed = True
                if kind == "derived":
                    found = None
                    child = alone.dup() if form == 3 else alone.split(0)
                    is_armed = False
                    child.close()
                elif form == 0:
                    found = communicator.allreduce(np.full(COUNT, value))
                elif form == 1:  # the same memory each time, even after an interrupted call
                    found = communicator.allreduce(np.full(COUNT, value), out=arrays[chance.randrange(2)])
                else:
                    request = communicator.iallreduce(np.full(COUNT, value))
                    kept.append((value, request))
                    found = kept[-1][1].wait() if chance.random() < 0.5 else None
                assert form == 1 or found is None or np.all(found == value + 1), (number, found)
                is_armed = False
            except Interrupted:
                interrupted[kind] += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        for value, request in kept:
            assert np.all(request.wait(60) == value + 1)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        last = communicator.allreduce(np.full(COUNT, -1.0), out=arrays[0])
        assert np.all(last == 0)
        status = communicator.status()
        assert status["outstanding"] == status["backlog"] == 0
        with contextlib.ExitStack() as stack:  # queues of interrupted dups and splits were given back
            for child in [stack.enter_context(alone.dup()) for _ in range(MAX_QUEUES - 2)]:
                child.barrier()
    thread.join(60)
    assert not thread.is_alive()
    print(*interrupted.values(), made)


if __name__ == "__main__":
    main(*sys.argv[1:])
