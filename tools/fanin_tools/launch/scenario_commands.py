"""What a rank does in the scenes of a demonstration that are more than one collective after the other.

| command | keys | answer |
| --- | --- | --- |
| begin | name, case | |
| progress | name | progress: for each collective under way name, done, segments, waiting_for |
| finish | | wrong |
| share | names, elements, messages | end_ns: for each job when each message was done; wrong |
| groups | name, elements | wrong; sizes of the two groups |
| repeat | name, dtype, elements, runs, pause_ms, seed | digests: of the result's bytes, for each run |
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import fanin
from fanin_tools.launch import JOB
from fanin_tools.launch.collective_call import Case
from fanin_tools.launch.exact_data import rounded
from fanin_tools.launch.rank_commands import COMMANDS, Answer, Rank
from fanin_tools.launch.verified_call import SECONDS, Trial


def begin(rank: Rank, case: dict[str, Any], name: str = JOB) -> Answer:
    """Start a collective and return while it is under way."""
    rank.trial = Trial(rank.member(name), Case(**case))
    rank.requests = [rank.trial.start()]
    return {}


def progress(rank: Rank, name: str = JOB) -> Answer:
    """Ask the device how far what is under way is."""
    return {"progress": [entry._asdict() for entry in rank.member(name).progress()]}


def finish(rank: Rank) -> Answer:
    """Wait for what was begun, and compare every bit."""
    for request in rank.requests:
        request.wait(SECONDS)
    rank.requests = []
    return {"wrong": rank.prepared().wrong()}


def share(rank: Rank, names: list[str], elements: int, messages: int) -> Answer:
    """Reduce in several jobs at once, all messages of all jobs under way from the beginning, posted in turns; odd ranks
    take the jobs in the opposite order."""
    turn = names if rank.member(names[0]).rank % 2 == 0 else names[::-1]
    trials = {name: Trial(rank.member(name), Case("allreduce", elements, seed=n)) for n, name in enumerate(names)}
    for name in names:
        rank.member(name).barrier(timeout=SECONDS)
    started: dict[str, list[fanin.Request]] = {name: [] for name in names}
    for _ in range(messages):
        for name in turn:
            started[name].append(trials[name].start())
    with ThreadPoolExecutor(len(names)) as waiters:
        ends = list(waiters.map(_ends, [started[name] for name in names]))
    return {"end_ns": ends, "wrong": sum(trial.wrong() for trial in trials.values())}


def _ends(requests: list[fanin.Request]) -> list[int]:
    """When each of several requests of a job was done; they are in order."""
    ends = []
    for request in requests:
        request.wait(SECONDS)
        ends.append(time.monotonic_ns())
    return ends


def groups(rank: Rank, elements: int, name: str = JOB) -> Answer:
    """Two overlapping groups of the job, even and odd ranks and two halves, with a collective under way in both; every
    second rank starts them in the opposite order."""
    parent = rank.member(name)
    parity, half = parent.split(parent.rank % 2), parent.split(2 * parent.rank // parent.size)
    assert parity is not None
    assert half is not None
    with parity, half:
        trials = [Trial(parity, Case("allreduce", elements)), Trial(half, Case("allgather", elements))]
        order = trials if parent.rank % 2 == 0 else trials[::-1]
        for request in [trial.start() for trial in order]:
            request.wait(SECONDS)
        return {"wrong": sum(trial.wrong() for trial in trials), "sizes": [parity.size, half.size]}


def repeat(rank: Rank, dtype: str, elements: int, runs: int, pause_ms: float, seed: int, name: str = JOB) -> Answer:
    """Add up numbers whose sum depends on the order, several times, each rank late by a time of its own."""
    member = rank.member(name)
    source = rounded(seed, member.rank, dtype, elements)
    result = np.empty_like(source)
    lateness = random.Random(f"{time.monotonic_ns()} {member.rank}")
    digests = []
    for _ in range(runs):
        time.sleep(lateness.random() * pause_ms / 1000)
        member.allreduce(source, out=result, datatype=dtype, timeout=SECONDS)
        digests.append(hashlib.sha256(result.tobytes()).hexdigest())
    return {"digests": digests}


SCENES: dict[str, Callable[..., Answer]] = {
    "begin": begin,
    "progress": progress,
    "finish": finish,
    "share": share,
    "groups": groups,
    "repeat": repeat,
}
ALL_COMMANDS = COMMANDS | SCENES
