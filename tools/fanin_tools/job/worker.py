"""One rank of a crew: obeys commands that come as lines of JSON, and answers each with one line.

| command | keys | answer |
| --- | --- | --- |
| join | job (path), rank, socket | |
| prepare | op, dtype, elements, seed, registered | |
| run | repeat | start_ns, end_ns: lists of CLOCK_MONOTONIC |
| verify | | wrong: elements of the result with a wrong bit |
| leave | | |

An error is answered as {"error": {name, cause, remedy}}. The end of the input ends the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np

import fanin
from fanin_tools.job import patterns
from fanin_wire.abi import Status

JOIN_SECONDS = 30.0
RUN_SECONDS = 60.0


class Rank:
    """What a rank holds between commands: its membership and its arrays."""

    def __init__(self) -> None:
        self.communicator: fanin.Communicator | None = None
        self.source = np.empty(0)
        self.result = np.empty(0)
        self.expected = np.empty(0)
        self.op = "sum"

    def join(self, job: str, rank: int, socket: str) -> dict[str, Any]:
        """Become a member of the job described in the file `job`."""
        self.communicator = fanin.Communicator(fanin.Job.from_file(job), rank, socket, timeout=JOIN_SECONDS)
        return {}

    def prepare(self, op: str, dtype: str, elements: int, seed: int, registered: bool) -> dict[str, Any]:
        """Make the data, and the result as it must be. The result's memory starts with bits that no result has."""
        member, kind = self._member(), patterns.DTYPES[dtype]
        self.op = op
        if registered:
            self.source, self.result = member.alloc(elements, kind), member.alloc(elements, kind)
        else:
            self.source, self.result = np.empty(elements, kind), np.empty(elements, kind)
        patterns.fill(self.source, patterns.pattern(seed, member.rank, dtype))
        self.result.view(np.uint8)[:] = 0xA5
        self.expected = patterns.reference(seed, member.size, dtype, op)
        return {}

    def run(self, repeat: int) -> dict[str, Any]:
        """Reduce `repeat` times."""
        member = self._member()
        starts, ends = [], []
        for _ in range(repeat):
            starts.append(time.monotonic_ns())
            member.allreduce(self.source, out=self.result, op=self.op, timeout=RUN_SECONDS)
            ends.append(time.monotonic_ns())
        return {"start_ns": starts, "end_ns": ends}

    def verify(self) -> dict[str, Any]:
        """Compare every bit of the result."""
        return {"wrong": patterns.wrong_elements(self.result, self.expected)}

    def leave(self) -> dict[str, Any]:
        """Leave the job and free the arrays."""
        self._member().close()
        self.communicator = None
        self.source = self.result = np.empty(0)
        return {}

    def _member(self) -> fanin.Communicator:
        if self.communicator is None:
            raise RuntimeError("not joined")
        return self.communicator


def obey(rank: Rank, line: str) -> dict[str, Any]:
    """Carry out one command; the answer."""
    command = json.loads(line)
    try:
        return getattr(rank, command.pop("do"))(**command)
    except fanin.FaninError as error:
        return {"error": {"name": Status(error.status).name, "cause": error.detail, "remedy": error.remedy}}


def main() -> None:
    """Serve commands until the input ends. What libraries print goes to the error output, not among the answers."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    rank = Rank()
    for line in sys.stdin:
        print(json.dumps(obey(rank, line)), file=answers)
    if rank.communicator is not None:
        rank.communicator.close()


if __name__ == "__main__":
    main()
