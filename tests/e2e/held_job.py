"""A job of one rank whose results are held back: `python -m tests.e2e.held_job ADDRESS HELD WHAT`.

As tests/e2e/held_rank.py, with the calls of `fanin.h`. WHAT is `end`: at the first line of its input the rank ends the
job, and says "late" if the results have not come within that call. At the next it leaves the job, and says with which
outcome.
"""

import sys
from pathlib import Path

from fanin.driver import check, ffi, library
from fanin.verbs import MR, PD, Context
from fanin_wire.abi import DType, Op, Route, Status
from tests.e2e.held_rank import LENGTH, SECONDS, say, step


def main(address: str, held: str) -> None:
    context = Context(address)
    memory = MR(PD(context), 2 * LENGTH)
    place = ffi.new("struct fanin_place *", {"address": library().fanin_limits(context.handle).address})
    job = ffi.new("struct fanin_job *", {"jid": 19, "key": 1, "route": int(Route.LOCAL), "ranks": 1, "places": place})
    communicator = ffi.new("struct fanin_communicator **")
    check(library().fanin_join(context.handle, job, 0, round(1000 * SECONDS), communicator), "can not join")
    Path(held).touch()
    message = {
        "collective": library().FANIN_ALLREDUCE,
        "op": int(Op.SUM),
        "dtype": int(DType.F32),
        "block": LENGTH,
        "source": ffi.cast("void *", memory.address),
        "destination": ffi.cast("void *", memory.address + LENGTH),
    }
    request = ffi.new("struct fanin_request **")
    check(
        library().fanin_start(communicator[0], ffi.new("struct fanin_operation *", message), request), "can not start"
    )
    say("posted")
    step()
    library().fanin_end_job(communicator[0], int(Status.ABORTED))
    say("late" if library().fanin_await_results(context.handle, 0) == Status.PENDING else "not late")
    step()
    say(Status(library().fanin_leave(communicator[0], round(1000 * SECONDS))).name)


main(*sys.argv[1:3])
