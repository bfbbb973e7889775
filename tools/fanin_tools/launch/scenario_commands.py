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
from fanin_tools.launch import DEFAULT_JOB
from fanin_tools.launch.collective_call import CollectiveCall
from fanin_tools.launch.exact_data import rounding_values
from fanin_tools.launch.rank_commands import COMMANDS, Answer, RankState
from fanin_tools.launch.verified_call import SECONDS, VerifiedCall


def begin(rank: RankState, case: dict[str, Any], name: str = DEFAULT_JOB) -> Answer:
    """Start a collective and return while it is under way."""
    rank.call = VerifiedCall(rank.communicator(name), CollectiveCall(**case))
    rank.requests = [rank.call.start()]
    return {}


def progress(rank: RankState, name: str = DEFAULT_JOB) -> Answer:
    """Ask the device how far what is under way is."""
    return {"progress": [entry._asdict() for entry in rank.communicator(name).progress()]}


def finish(rank: RankState) -> Answer:
    """Wait for what was begun, and compare every bit."""
    for request in rank.requests:
        request.wait(SECONDS)
    rank.requests = []
    return {"wrong": rank.prepared().wrong()}


def share(rank: RankState, names: list[str], elements: int, messages: int) -> Answer:
    """Reduce in several jobs at once, all messages of all jobs under way from the beginning, posted in turns; odd ranks
    take the jobs in the opposite order."""
    turn = names if rank.communicator(names[0]).rank % 2 == 0 else names[::-1]
    calls = {
        name: VerifiedCall(rank.communicator(name), CollectiveCall("allreduce", elements, seed=n))
        for n, name in enumerate(names)
    }
    for name in names:
        rank.communicator(name).barrier(timeout=SECONDS)
    started: dict[str, list[fanin.Request]] = {name: [] for name in names}
    for _ in range(messages):
        for name in turn:
            started[name].append(calls[name].start())
    with ThreadPoolExecutor(len(names)) as waiters:
        ends = list(waiters.map(_ends, [started[name] for name in names]))
    return {"end_ns": ends, "wrong": sum(call.wrong() for call in calls.values())}


def _ends(requests: list[fanin.Request]) -> list[int]:
    """When each of several requests of a job was done; they are in order."""
    ends = []
    for request in requests:
        request.wait(SECONDS)
        ends.append(time.monotonic_ns())
    return ends


def groups(rank: RankState, elements: int, name: str = DEFAULT_JOB) -> Answer:
    """Two overlapping groups of the job, even and odd ranks and two halves, with a collective under way in both; every
    second rank starts them in the opposite order."""
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
            request.wait(SECONDS)
        return {"wrong": sum(call.wrong() for call in calls), "sizes": [parity.size, half.size]}


def repeat(
    rank: RankState, dtype: str, elements: int, runs: int, pause_ms: float, seed: int, name: str = DEFAULT_JOB
) -> Answer:
    """Add up numbers whose sum depends on the order, several times, each rank late by a time of its own."""
    communicator = rank.communicator(name)
    source = rounding_values(seed, communicator.rank, dtype, elements)
    result = np.empty_like(source)
    lateness = random.Random(f"{time.monotonic_ns()} {communicator.rank}")
    digests = []
    for _ in range(runs):
        time.sleep(lateness.random() * pause_ms / 1000)
        communicator.allreduce(source, out=result, datatype=dtype, timeout=SECONDS)
        digests.append(hashlib.sha256(result.tobytes()).hexdigest())
    return {"digests": digests}


SCENARIO_COMMANDS: dict[str, Callable[..., Answer]] = {
    "begin": begin,
    "progress": progress,
    "finish": finish,
    "share": share,
    "groups": groups,
    "repeat": repeat,
}
COMMANDS_BY_NAME = COMMANDS | SCENARIO_COMMANDS
