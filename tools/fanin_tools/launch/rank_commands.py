"""What a rank of a crew holds between commands, and the commands that every use of a crew needs.

| command | keys | answer |
| --- | --- | --- |
| join | name, job (path), number, socket, staged | |
| prepare | name, case | |
| run | repeat | start_ns, end_ns: lists of CLOCK_MONOTONIC |
| verify | | wrong: elements of the result with a wrong bit |
| try | name, cases | wrong: pairs of a case's number and its wrong elements; start_ns, end_ns of each; stopped |
| leave | name | |

name: of the job that is meant. A case is a `Case` as a dictionary. stopped: number and error of the case that could not
be tried, after which none was; else null.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import fanin
from fanin import staging
from fanin_tools.launch import DEFAULT_JOB
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.verified_call import VerifiedCall
from fanin_wire.abi import Status

JOIN_SECONDS = 30.0

Answer = dict[str, Any]


class RankState:
    """The communicators of this process by name, and the trial that is prepared."""

    def __init__(self) -> None:
        self.communicators: dict[str, fanin.Communicator] = {}
        self.call: VerifiedCall | None = None
        self.requests: list[fanin.Request] = []

    def communicator(self, name: str) -> fanin.Communicator:
        """This rank in the job called `name`."""
        return self.communicators[name]

    def prepared(self) -> VerifiedCall:
        """The trial that was prepared last."""
        if self.call is None:
            raise RuntimeError("nothing is prepared")
        return self.call

    def end(self) -> None:
        """Leave all jobs."""
        self.call = None
        for name in list(self.communicators):
            self.communicators.pop(name).close()


def join(rank: RankState, job: str, number: int, socket: str, name: str = DEFAULT_JOB, staged: bool = True) -> Answer:
    """Become a member of the job described in the file `job`; `staged`: as of Crew.join."""
    os.environ[staging.VARIABLE] = str(staging.LARGEST if staged else 0)
    rank.communicators[name] = fanin.Communicator(fanin.Job.from_file(job), number, socket, timeout=JOIN_SECONDS)
    return {}


def leave(rank: RankState, name: str = DEFAULT_JOB) -> Answer:
    """Leave a job; the arrays go, too."""
    rank.call = None
    rank.communicators.pop(name).close()
    return {}


def prepare(rank: RankState, case: dict[str, Any], name: str = DEFAULT_JOB) -> Answer:
    """Make the arrays of a case and fill them."""
    rank.call = None  # its memory first: two cases may not fit
    rank.call = VerifiedCall(rank.communicator(name), CollectiveCall(**case))
    return {}


def run(rank: RankState, repeat: int) -> Answer:
    """Take part in the prepared case `repeat` times."""
    run = rank.prepared().run
    starts, ends = [], []
    for _ in range(repeat):
        starts.append(time.monotonic_ns())
        run()
        ends.append(time.monotonic_ns())
    return {"start_ns": starts, "end_ns": ends}


def verify(rank: RankState) -> Answer:
    """Compare every bit of the result."""
    return {"wrong": rank.prepared().wrong()}


def try_cases(rank: RankState, cases: list[dict[str, Any]], name: str = DEFAULT_JOB) -> Answer:
    """Take part in one case after the other, and compare every bit of each."""
    answer: Answer = {"wrong": [], "start_ns": [], "end_ns": [], "stopped": None}
    for number, case in enumerate(cases):
        try:
            _try_case(rank.communicator(name), CollectiveCall(**case), number, answer)
        except fanin.FaninError as error:
            answer["stopped"] = (number, error_answer(error)["error"])
            break
    return answer


def _try_case(communicator: fanin.Communicator, case: CollectiveCall, number: int, answer: Answer) -> None:
    call = VerifiedCall(communicator, case)
    start = time.monotonic_ns()
    call.run()
    answer["end_ns"].append(time.monotonic_ns())
    answer["start_ns"].append(start)
    if mistakes := call.wrong():
        answer["wrong"].append((number, mistakes))


def error_answer(error: fanin.FaninError) -> Answer:
    """The answer to a command that failed."""
    return {"error": {"name": Status(error.status).name, "cause": error.detail, "remedy": error.remedy}}


COMMANDS: dict[str, Callable[..., Answer]] = {
    "join": join,
    "leave": leave,
    "prepare": prepare,
    "run": run,
    "verify": verify,
    "try": try_cases,
}
