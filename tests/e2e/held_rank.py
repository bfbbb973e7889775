"""A rank whose results are held back: `python -m tests.e2e.held_rank ADDRESS HELD WHAT`.

Its device keeps results in the queue pair while the file HELD exists (programs/held_writes.c). The rank makes the file,
posts a request, and says "posted". For each line of its input it takes a step: it does WHAT, stores a pattern where the
results belong, and says "over", or "over: it stands still"; then "kept" or "changed".

WHAT: notice the loss of the device by a `wait` for a completion, by a `post`, or by a `request` of the control
connection. Or `leave` the job, or `destroy` the queue pair: the rank says "late" if that takes too long, and waits for
the results in one more step.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fanin import errors
from fanin.driver import library
from fanin.verbs import CQ, MR, PD, CollectiveQP, Context, Membership
from fanin_wire.abi import Status
from tests.host.work_requests import one_completion, request_over

LENGTH = 100_000  # bytes
SECONDS = 60.0
LATE_S = 1.0  # for the end of a job of one rank; a queue pair's end has its own limit
PATTERN = b"\xa5" * LENGTH
LOOK_S = 0.001


def membership(jid: int) -> Membership:
    return Membership(jid=jid, key=1, slots=64, chunk=1024)


def step() -> None:
    """Wait for the test."""
    if not sys.stdin.readline():
        sys.exit("the test has ended")


def say(text: str) -> None:
    print(text, flush=True)


def until_lost(action: Callable[[], object]) -> None:
    """Repeat until the device is lost. Raises Timeout."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            action()
        except errors.QueueFull:
            pass
        except errors.DeviceLost:
            return
        time.sleep(LOOK_S)
    raise errors.Timeout(f"the device was not lost in {SECONDS:g} s")


def be_late(context: Context, end: Callable[[], object]) -> None:
    """The end of the queue pair waits for the results; other requests do not wait for it."""
    try:
        end()
    except errors.Timeout:
        CQ(context).close()
        say("late")
        step()
    status = library().fanin_await_results(context.handle, round(1000 * SECONDS))
    assert status == Status.SUCCESS, status


def complete_another(domain: PD) -> None:
    """A request whose completion follows all earlier writes of the device."""
    cq = CQ(domain.context)
    with CollectiveQP(domain, cq) as queue_pair:
        queue_pair.join(membership(18), SECONDS)
        queue_pair.post_send(request_over(0, 0, 0))
        one_completion(cq)


def main(address: str, held: str, what: str) -> None:
    context = Context(address)
    domain = PD(context)
    cq = CQ(context)
    queue_pair = CollectiveQP(domain, cq)
    memory = MR(domain, 2 * LENGTH)
    queue_pair.join(membership(17), SECONDS)
    Path(held).touch()
    lkeys = {"source_lkey": memory.lkey, "destination_lkey": memory.lkey}
    request = request_over(memory.address, memory.address + LENGTH, LENGTH, **lkeys)
    queue_pair.post_send(request)
    say("posted")
    step()
    {
        "leave": lambda: be_late(context, lambda: queue_pair.leave(LATE_S)),
        "destroy": lambda: be_late(context, queue_pair.close),
        "wait": lambda: until_lost(lambda: cq.wait(SECONDS)),
        "post": lambda: until_lost(lambda: queue_pair.post_send(request)),
        "request": lambda: until_lost(lambda: CQ(context).close()),
    }[what]()
    memory.write(PATTERN, LENGTH, LENGTH)
    say("over: it stands still" if context.device_stands_still else "over")
    step()
    with contextlib.suppress(errors.DeviceLost):
        complete_another(domain)
    say("kept" if memory.read(LENGTH, LENGTH) == PATTERN else "changed")


if __name__ == "__main__":
    main(*sys.argv[1:])
