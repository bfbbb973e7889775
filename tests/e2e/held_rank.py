"""A rank whose results are held up: `python -m tests.e2e.held_rank ADDRESS HELD WHAT`.

Its device keeps results in the queue pair while the file HELD is there (programs/held_writes.c). The rank makes the
file, posts a request, and says "posted". For each line of its input it takes a step: first it does WHAT, stores a
pattern where the results belong, and says "over"; then it says "kept" or "changed".

WHAT: `leave` the job; `destroy` the queue pair; learn that the device is lost by a `wait` for a completion, by a
`post`, or by a `request` of the control connection.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fanin import errors
from fanin.verbs import CQ, MR, PD, CollectiveQP, Context, Membership
from tests.host.work_requests import request_over

LENGTH = 100_000  # bytes
SECONDS = 100.0
PATTERN = b"\xa5" * LENGTH
LOOK_S = 0.001


def until_lost(action: Callable[[], object]) -> None:
    """Do something until the device is lost."""
    try:
        while True:
            with contextlib.suppress(errors.QueueFull):
                action()
            time.sleep(LOOK_S)
    except errors.DeviceLost:
        return


def step() -> None:
    """Wait until the test says that it goes on."""
    if not sys.stdin.readline():
        sys.exit("the test has ended")


def main(address: str, held: str, what: str) -> None:
    context = Context(address)
    domain = PD(context)
    cq = CQ(context)
    queue_pair = CollectiveQP(domain, cq)
    memory = MR(domain, 2 * LENGTH)
    queue_pair.join(Membership(jid=17, key=1, slots=64, chunk=1024), SECONDS)
    Path(held).touch()
    lkeys = {"source_lkey": memory.lkey, "destination_lkey": memory.lkey}
    request = request_over(memory.address, memory.address + LENGTH, LENGTH, **lkeys)
    queue_pair.post_send(request)
    print("posted", flush=True)
    step()
    {
        "leave": lambda: queue_pair.leave(SECONDS),
        "destroy": queue_pair.close,
        "wait": lambda: until_lost(lambda: cq.wait(SECONDS)),
        "post": lambda: until_lost(lambda: queue_pair.post_send(request)),
        "request": lambda: until_lost(lambda: CQ(context).close()),
    }[what]()
    memory.write(PATTERN, LENGTH, LENGTH)
    print("over", flush=True)
    step()
    print("kept" if memory.read(LENGTH, LENGTH) == PATTERN else "changed", flush=True)


main(*sys.argv[1:])
