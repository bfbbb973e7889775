"""Commands of a worker's rank for more than one collective after the other.

| command | arguments | reply |
| --- | --- | --- |
| begin | name, call | |
| progress | name | progress: name, done, segments, waiting_for of each collective that is under way |
| finish | | wrong |
| share | names, elements, messages | end_ns: the time at which each message of each job was done; wrong |
| groups | name, elements | wrong; sizes of the two groups |
| repeat | name, dtype, elements, runs, pause_ms, seed | digests: of the bytes of each run's result |
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
from fanin_tools.launch import DEFAULT_JOB
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.exact_data import rounding_values
from fanin_tools.launch.rank_commands import COMMANDS, RankState, Reply
from fanin_tools.launch.verified_call import TIMEOUT_SECONDS, VerifiedCall


def begin(rank: RankState, call: dict[str, Any], name: str = DEFAULT_JOB) -> Reply:
    """Begin a collective and return at once."""
    rank.call = VerifiedCall(rank.communicator(name), CollectiveCall(**call))
    rank.requests = [rank.call.start()]
    return {}


def progress(rank: RankState, name: str = DEFAULT_JOB) -> Reply:
    """Of the collectives under way, as the device reports it."""
    return {"progress": [entry._asdict() for entry in rank.communicator(name).progress()]}


def finish(rank: RankState) -> Reply:
    """Wait for the collective that was begun, and compare every bit of its result."""
    for request in rank.requests:
        request.wait(TIMEOUT_SECONDS)
    rank.requests = []
    return {"wrong": rank.prepared().wrong()}


def share(rank: RankState, names: list[str], elements: int, messages: int) -> Reply:
    """Reduce in several jobs at once. All messages are posted before the first wait, to the jobs in turns; odd ranks
    take the jobs in reverse."""
    turn = names if rank.communicator(names[0]).rank % 2 == 0 else names[::-1]
    calls = {
        name: VerifiedCall(rank.communicator(name), CollectiveCall("allreduce", elements, seed=n))
        for n, name in enumerate(names)
    }
    for name in names:
        rank.communicator(name).barrier(timeout=TIMEOUT_SECONDS)
    started: dict[str, list[fanin.Request]] = {name: [] for name in names}
    for _ in range(messages):
        for name in turn:
            started[name].append(calls[name].start())
    with ThreadPoolExecutor(len(names)) as waiters:
        ends = list(waiters.map(_ends, [started[name] for name in names]))
    return {"end_ns": ends, "wrong": sum(call.wrong() for call in calls.values())}


def _ends(requests: list[fanin.Request]) -> list[int]:
    """When the requests of a job were done. They end in order."""
    ends = []
    for request in requests:
        request.wait(TIMEOUT_SECONDS)
        ends.append(time.monotonic_ns())
    return ends


def groups(rank: RankState, elements: int, name: str = DEFAULT_JOB) -> Reply:
    """A collective in each of two overlapping groups at once: the even or odd ranks, and a half of the job. Every
    second rank begins them in reverse."""
    parent = rank.communicator(name)
    parity, half = parent.split(parent.rank % 2), parent.split(2 * parent.rank // parent.size)
    assert parity is not None
    assert half is not None
    with parity, half:
        calls = [
            VerifiedCall(parity, CollectiveCall("allreduce", elements)),
            VerifiedCall(half, CollectiveCall("allgather", elements)),
        ]
        order = calls if parent.rank % 2 == 0 else calls[::-1]
        for request in [call.start() for call in order]:
            request.wait(TIMEOUT_SECONDS)
        return {"wrong": sum(call.wrong() for call in calls), "sizes": [parity.size, half.size]}


def repeat(
    rank: RankState, dtype: str, elements: int, runs: int, pause_ms: float, seed: int, name: str = DEFAULT_JOB
) -> Reply:
    """Add numbers whose sum depends on the order, several times. Each rank is late by a random time."""
    communicator = rank.communicator(name)
    source = rounding_values(seed, communicator.rank, dtype, elements)
    result = np.empty_like(source)
    lateness = random.Random(f"{time.monotonic_ns()} {communicator.rank}")
    digests = []
    for _ in range(runs):
        time.sleep(lateness.random() * pause_ms / 1000)
        communicator.allreduce(source, out=result, datatype=dtype, timeout=TIMEOUT_SECONDS)
        digests.append(hashlib.sha256(result.tobytes()).hexdigest())
    return {"digests": digests}


SCENARIO_COMMANDS: dict[str, Callable[..., Reply]] = {
    "begin": begin,
    "progress": progress,
    "finish": finish,
    "share": share,
    "groups": groups,
    "repeat": repeat,
}
COMMANDS_BY_NAME = COMMANDS | SCENARIO_COMMANDS
