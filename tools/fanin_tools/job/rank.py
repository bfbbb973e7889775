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
from fanin_tools.job import JOB
from fanin_tools.job.case import Case
from fanin_tools.job.trial import Trial
from fanin_wire.abi import Status

JOIN_SECONDS = 30.0
LONGEST_STAGED = 4 << 20  # bytes: the default of the library

Answer = dict[str, Any]


class Rank:
    """The communicators of this process by name, and the trial that is prepared."""

    def __init__(self) -> None:
        self.members: dict[str, fanin.Communicator] = {}
        self.trial: Trial | None = None
        self.requests: list[fanin.Request] = []

    def member(self, name: str) -> fanin.Communicator:
        """This rank in the job called `name`."""
        return self.members[name]

    def prepared(self) -> Trial:
        """The trial that was prepared last."""
        if self.trial is None:
            raise RuntimeError("nothing is prepared")
        return self.trial

    def end(self) -> None:
        """Leave all jobs."""
        self.trial = None
        for name in list(self.members):
            self.members.pop(name).close()


def join(rank: Rank, job: str, number: int, socket: str, name: str = JOB, staged: bool = True) -> Answer:
    """Become a member of the job described in the file `job`; `staged`: as of Crew.join."""
    os.environ["FANIN_STAGING"] = str(LONGEST_STAGED if staged else 0)
    rank.members[name] = fanin.Communicator(fanin.Job.from_file(job), number, socket, timeout=JOIN_SECONDS)
    return {}


def leave(rank: Rank, name: str = JOB) -> Answer:
    """Leave a job; the arrays go, too."""
    rank.trial = None
    rank.members.pop(name).close()
    return {}


def prepare(rank: Rank, case: dict[str, Any], name: str = JOB) -> Answer:
    """Make the arrays of a case and fill them."""
    rank.trial = None  # its memory first: two cases may not fit
    rank.trial = Trial(rank.member(name), Case(**case))
    return {}


def run(rank: Rank, repeat: int) -> Answer:
    """Take part in the prepared case `repeat` times."""
    act = rank.prepared().act
    starts, ends = [], []
    for _ in range(repeat):
        starts.append(time.monotonic_ns())
        act()
        ends.append(time.monotonic_ns())
    return {"start_ns": starts, "end_ns": ends}


def verify(rank: Rank) -> Answer:
    """Compare every bit of the result."""
    return {"wrong": rank.prepared().wrong()}


def try_cases(rank: Rank, cases: list[dict[str, Any]], name: str = JOB) -> Answer:
    """Take part in one case after the other, and compare every bit of each."""
    answer: Answer = {"wrong": [], "start_ns": [], "end_ns": [], "stopped": None}
    for number, case in enumerate(cases):
        try:
            _try_case(rank.member(name), Case(**case), number, answer)
        except fanin.FaninError as error:
            answer["stopped"] = (number, error_answer(error)["error"])
            break
    return answer


def _try_case(member: fanin.Communicator, case: Case, number: int, answer: Answer) -> None:
    trial = Trial(member, case)
    start = time.monotonic_ns()
    trial.act()
    answer["end_ns"].append(time.monotonic_ns())
    answer["start_ns"].append(start)
    if mistakes := trial.wrong():
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
