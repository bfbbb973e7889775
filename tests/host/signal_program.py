"""Two ranks whose first is interrupted by an alarm at random times.

Arguments: a job of two ranks as JSON, the socket of its device, a seed, and what the handler of the alarm does: "raise"
or "call". Every collective is the same, so a call that was interrupted before it was started does not part the ranks.
Prints how many calls were interrupted, and how many the handler has made.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time

import numpy as np

import fanin

CALLS, COUNT = 300, 3000
LONGEST_S = 0.004  # until the next alarm


class Interrupted(Exception):
    """Raised by the handler."""


def other_rank(job: fanin.Job, socket: str) -> None:
    """Takes part until the sum is 0. It is late now and then."""
    lazy, ones = random.Random(1), np.ones(COUNT)
    with fanin.Communicator(job, 1, socket) as communicator:
        while communicator.allreduce(ones)[0] != 0:
            if lazy.random() < 0.3:
                time.sleep(lazy.random() * LONGEST_S)


def main(description: str, socket: str, seed: str, action: str) -> None:
    job, chance = fanin.Job.from_dict(json.loads(description)), random.Random(int(seed))
    thread = threading.Thread(target=other_rank, args=(job, socket))
    thread.start()
    made = interrupted = 0
    is_armed = False  # an exception is raised once, and only where it is caught
    with fanin.Communicator(job, 0, socket) as communicator:

        def alarm(*_: object) -> None:
            nonlocal made, is_armed
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, LONGEST_S))
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
        signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
        for number in range(CALLS):
            value = float(number)
            try:
                is_armed = True
                form = chance.randrange(3)
                if form == 0:
                    found = communicator.allreduce(np.full(COUNT, value))
                elif form == 1:  # the same memory each time, also when the call before was interrupted
                    found = communicator.allreduce(np.full(COUNT, value), out=arrays[chance.randrange(2)])
                else:
                    request = communicator.iallreduce(np.full(COUNT, value))
                    kept.append((value, request))
                    found = kept[-1][1].wait() if chance.random() < 0.5 else None
                assert form == 1 or found is None or np.all(found == value + 1), (number, found)
                is_armed = False
            except Interrupted:
                interrupted += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        for value, request in kept:
            assert np.all(request.wait(20) == value + 1)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        last = communicator.allreduce(np.full(COUNT, -1.0), out=arrays[0])
        assert np.all(last == 0)
        status = communicator.status()
        assert status["outstanding"] == status["backlog"] == 0
    thread.join(20)
    assert not thread.is_alive()
    print(interrupted, made)


if __name__ == "__main__":
    main(*sys.argv[1:])
