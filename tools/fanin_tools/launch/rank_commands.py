"""The state of a worker's rank between commands, and the commands that every user of a worker pool needs.

| command | arguments | reply |
| --- | --- | --- |
| join | name, job (path), number, socket, staged | |
| prepare | name, call | |
| run | repeat | start_ns, end_ns: lists of CLOCK_MONOTONIC |
| verify | | wrong: number of elements of the result with a wrong bit |
| try | name, calls | wrong: pairs (number of the call, its wrong elements); start_ns, end_ns of each; stopped |
| leave | name | |

`name` is of the job within the pool. A call is a CollectiveCall as a dictionary. `stopped` has number and error of the
call that failed, after which no call was made; null if none failed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import fanin
from fanin_tools.launch import DEFAULT_JOB
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.verified_call import VerifiedCall
from fanin_wire.abi import Status

JOIN_SECONDS = 30.0
STAGING_VARIABLE = "FANIN_STAGING"  # bytes of the longest message that is staged; 16 MiB if it is not set

Reply = dict[str, Any]


class RankState:
    """The communicators of this process by name, and the prepared call."""

    def __init__(self) -> None:
        self.communicators: dict[str, fanin.Communicator] = {}
        self.call: VerifiedCall | None = None
        self.requests: list[fanin.Request] = []

    def communicator(self, name: str) -> fanin.Communicator:
        return self.communicators[name]

    def prepared(self) -> VerifiedCall:
        if self.call is None:
            raise RuntimeError("no call has been prepared")
        return self.call

    def end(self) -> None:
        self.call = None
        for name in list(self.communicators):
            self.communicators.pop(name).close()


def join(rank: RankState, job: str, number: int, socket: str, name: str = DEFAULT_JOB, staged: bool = True) -> Reply:
    """The job of the file `job`. staged: as in WorkerPool.join."""
    if staged:
        os.environ.pop(STAGING_VARIABLE, None)
    else:
        os.environ[STAGING_VARIABLE] = "0"
    rank.communicators[name] = fanin.Communicator(fanin.Job.from_file(job), number, socket, timeout=JOIN_SECONDS)
    return {}


def leave(rank: RankState, name: str = DEFAULT_JOB) -> Reply:
    """Leave the job and free the arrays."""
    rank.call = None
    rank.communicators.pop(name).close()
    return {}


def prepare(rank: RankState, call: dict[str, Any], name: str = DEFAULT_JOB) -> Reply:
    """Allocate and fill the arrays of a call."""
    rank.call = None  # frees its memory first: two calls' arrays may not fit
    rank.call = VerifiedCall(rank.communicator(name), CollectiveCall(**call))
    return {}


def run(rank: RankState, repeat: int) -> Reply:
    """Make the prepared call `repeat` times."""
    make_call = rank.prepared().run
    starts, ends = [], []
    for _ in range(repeat):
        starts.append(time.monotonic_ns())
        make_call()
        ends.append(time.monotonic_ns())
    return {"start_ns": starts, "end_ns": ends}


def verify(rank: RankState) -> Reply:
    """Compare every bit of the result."""
    return {"wrong": rank.prepared().wrong()}


def try_calls(rank: RankState, calls: list[dict[str, Any]], name: str = DEFAULT_JOB) -> Reply:
    """Make one call after the other, and compare every bit of each result."""
    reply: Reply = {"wrong": [], "start_ns": [], "end_ns": [], "stopped": None}
    for number, call in enumerate(calls):
        try:
            _try_call(rank.communicator(name), CollectiveCall(**call), number, reply)
        except fanin.FaninError as error:
            reply["stopped"] = (number, error_reply(error)["error"])
            break
    return reply


def _try_call(communicator: fanin.Communicator, call: CollectiveCall, number: int, reply: Reply) -> None:
    verified = VerifiedCall(communicator, call)
    start = time.monotonic_ns()
    verified.run()
    reply["end_ns"].append(time.monotonic_ns())
    reply["start_ns"].append(start)
    if wrong := verified.wrong():
        reply["wrong"].append((number, wrong))


def error_reply(error: fanin.FaninError) -> Reply:
    return {"error": {"name": Status(error.status).name, "cause": error.detail, "remedy": error.remedy}}


COMMANDS: dict[str, Callable[..., Reply]] = {
    "join": join,
    "leave": leave,
    "prepare": prepare,
    "run": run,
    "verify": verify,
    "try": try_calls,
}
