"""An allreduce and a stream of RC WRITEs on the ports of two NICs: each alone, then both at once.

All processes start once and take turns (allreduce, stream, both) for several rounds, so that other load affects all. A
turn has a warm-up, and ends only when each kind has finished a message. CPU time is that of each device's process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fanin
from fanin.verbs import CQ, MR, PD, QP, SGE, AHAttr, Context, GlobalRoute, QPAttr, QPInitAttr, SendWR
from fanin.verbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_QPT_RC, IBV_WR_RDMA_WRITE
from fanin_nic.daemon.lanes.ordinary_host import largest_path_mtu
from fanin_nic.native import shared_words
from fanin_tools.bench.network import SharedWords, Task, run_together
from fanin_tools.errors import ToolError
from fanin_tools.fabric import device_query
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import place
from fanin_tools.progress import ProgressCallback
from fanin_wire.rocev2 import PATH_MTUS

NODES = 2
KINDS = ("allreduce", "RC WRITE")
TURNS = {"allreduce": (True, False), "RC WRITE": (False, True), "both": (True, True)}
WARM_UP, SECONDS = 0.3, 1.0  # of a turn
MAX_ROUNDS = 12  # run_together waits a minute
WRITE_SIZE = 1 << 20  # bytes
UNDER_WAY = 16  # WRITEs
PAUSE = 0.001  # s between looks
RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE

RUN, DONE, GAP = range(3)  # shared words of a kind: whether to run; messages done; longest time between two, us
WORDS = 3
ENDED = 2  # in the word RUN


@dataclass(frozen=True)
class Row:
    """A kind of traffic, medians of the rounds.

    alone, together: bytes of messages a second. share, least_share: part of what it has alone in the same round; in the
    worst round. gap_ms: longest time without a message while both ran.
    """

    kind: str
    alone: float
    together: float
    share: float
    least_share: float
    gap_ms: float


@dataclass(frozen=True)
class Use:
    """CPU seconds of a process for each second of a turn; medians of the rounds."""

    process: str
    allreduce: float
    write: float
    both: float


class Words:
    def __init__(self) -> None:
        self._words = SharedWords(WORDS * len(KINDS))

    def load(self, kind: int, word: int) -> int:
        return int(shared_words.load_acquire(int(self._words.address(WORDS * kind + word))))

    def store(self, kind: int, word: int, value: int) -> None:
        shared_words.store_release(int(self._words.address(WORDS * kind + word)), value)


class Pace:
    """Counts one kind's messages, and the longest time between two."""

    def __init__(self, words: Words, kind: int) -> None:
        self._words, self._kind, self._last = words, kind, 0

    def begin(self) -> None:
        """After a pause."""
        self._last = time.monotonic_ns()

    def add(self, count: int) -> None:
        now = time.monotonic_ns()
        gap = (now - self._last) // 1000
        if gap > self._words.load(self._kind, GAP):
            self._words.store(self._kind, GAP, min(gap, 0xFFFF_FFFF))
        self._last = now
        self._words.store(self._kind, DONE, (self._words.load(self._kind, DONE) + count) & 0xFFFF_FFFF)


@dataclass(frozen=True)
class Load:
    """size: bytes of the allreduce's message. polls: the stream polls without sleep, as perftest does."""

    route: str
    size: int
    polls: bool


def measure(running: Running, load: Load, rounds: int, progress: ProgressCallback) -> tuple[list[Row], list[Use]]:
    """Measure both kinds on a fabric of two nodes."""
    placement = place(running.fabric, NODES, load.route)
    path = job_file.write(running, job_file.describe(running, placement))
    try:
        job, words = fanin.Job.from_file(path), Words()
        sockets = [running.state.socket(nic.name) for nic in placement.nics]
        processes = {
            device.name: int(device_query.query_status(running.state.socket(device.name))["pid"])
            for device in running.fabric.daemons
        }
        tasks: list[Task] = [
            ("", lambda: _control(words, load, rounds, processes, progress)),
            *(("", _rank(words, load.size, job, rank, sockets[rank])) for rank in range(NODES)),
            ("", lambda: _write(words, load.polls, sockets, running.fabric.path_mtu)),
        ]
        found, *wrong = run_together(tasks)
    finally:
        path.unlink()
    if any(wrong):
        cause = "a result of the allreduce, or the memory that was written, has a wrong byte"
        raise ToolError("WRONG_RESULT", cause, "this is a defect: report it with the output of fanin doctor --json")
    return _rows(found), _uses(found, processes)


def _control(
    words: Words, load: Load, rounds: int, processes: dict[str, int], progress: ProgressCallback
) -> list[dict[str, Any]]:
    """Give the turns. Returns, for each round, by turn: bytes a second and longest gap of each kind; CPU shares."""
    found = []
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds} ...")
        found.append({turn: _turn(words, load, wanted, processes) for turn, wanted in TURNS.items()})
    for kind in range(len(KINDS)):
        words.store(kind, RUN, ENDED)
    return found


def _turn(words: Words, load: Load, wanted: tuple[bool, bool], processes: dict[str, int]) -> dict[str, Any]:
    for kind, runs in enumerate(wanted):
        words.store(kind, RUN, int(runs))
    time.sleep(WARM_UP)
    before, used, start = [words.load(kind, DONE) for kind in range(2)], _cpu(processes), time.monotonic()
    for kind in range(2):
        words.store(kind, GAP, 0)
    time.sleep(SECONDS)
    while any(runs and words.load(kind, DONE) == before[kind] for kind, runs in enumerate(wanted)):
        time.sleep(PAUSE)
    elapsed, used_then = time.monotonic() - start, _cpu(processes)
    done = [(words.load(kind, DONE) - before[kind]) & 0xFFFF_FFFF for kind in range(2)]
    gaps = [words.load(kind, GAP) for kind in range(2)]
    for kind in range(2):
        words.store(kind, RUN, 0)
    return {
        "rates": [count * size / elapsed for count, size in zip(done, (load.size, WRITE_SIZE), strict=True)],
        "gaps": gaps,
        "cpu": {name: (used_then[name] - used[name]) / elapsed for name in processes},
    }


def _cpu(processes: dict[str, int]) -> dict[str, float]:
    ticks = 100  # a second, of /proc
    fields = {name: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for name, pid in processes.items()}
    return {name: (int(found[11]) + int(found[12])) / ticks for name, found in fields.items()}


def _await_turn(words: Words, kind: int) -> bool:
    """Sleep until the kind is to run. False: it is over."""
    while not (state := words.load(kind, RUN)):
        time.sleep(PAUSE)
    return state != ENDED


def _rank(words: Words, size: int, job: fanin.Job, rank: int, socket: Path) -> Callable[[], int]:
    """A rank of the allreduce. Its first element says whether it was told to stop, so that both ranks make the same
    number of calls. Returns the number of wrong elements."""

    def run() -> int:
        wrong, pace = 0, Pace(words, 0)
        with fanin.Communicator(job, rank, socket) as communicator:
            data, total = (communicator.alloc(size // 4, np.float32) for _ in range(2))
            data[:] = np.arange(data.size) % 1000
            while _await_turn(words, 0):
                pace.begin()
                total[0] = data[0] = 0
                while not total[0]:
                    data[0] = words.load(0, RUN) != 1
                    communicator.allreduce(data, out=total)
                    if rank == 0:
                        pace.add(1)
                wrong += int(np.count_nonzero(total[1:] != NODES * data[1:]))
            communicator.barrier()
        return wrong

    return run


def _write(words: Words, polls: bool, sockets: list[Path], path_mtu: int) -> int:
    """The stream of WRITEs, from the first NIC to the second. Returns 1 if its memory is not as written."""
    contexts = [Context(socket) for socket in sockets]
    pds = [PD(context) for context in contexts]
    cqs = [CQ(context) for context in contexts]
    source, target = (MR(pd, WRITE_SIZE, RIGHTS) for pd in pds)
    one, other = (QP(pd, QPInitAttr(IBV_QPT_RC, cq, cq)) for pd, cq in zip(pds, cqs, strict=True))
    mtu = PATH_MTUS.index(largest_path_mtu(path_mtu)) + 1
    for qp, mate, there in ((one, other, contexts[1]), (other, one, contexts[0])):
        address = AHAttr(GlobalRoute(there.query_gid()))
        qp.to_rts(QPAttr(dest_qp_num=mate.qp_num, ah_attr=address, qp_access_flags=RIGHTS, path_mtu=mtu))
    data, pace, number = np.random.default_rng(1).bytes(WRITE_SIZE), Pace(words, 1), 0
    source.write(data, WRITE_SIZE)
    request = SendWR(1, IBV_WR_RDMA_WRITE, sg=[SGE(source.address, WRITE_SIZE, source.lkey)])
    request.set_wr_rdma(target.rkey, target.address)
    while _await_turn(words, 1):
        pace.begin()
        while number or words.load(1, RUN) == 1:
            while number < UNDER_WAY and words.load(1, RUN) == 1:
                one.post_send(request)
                number += 1
            if not polls:
                cqs[0].wait()
            done = cqs[0].poll(UNDER_WAY)[1]
            if any(each.status for each in done):
                raise ToolError("PROGRAM_FAILED", f"a WRITE has ended with {done}", "look at the status of the NICs")
            number -= len(done)
            if done:
                pace.add(len(done))
    wrong = int(target.read(WRITE_SIZE, 0) != data)
    for context in contexts:
        context.close()
    return wrong


def _rows(found: list[dict[str, Any]]) -> list[Row]:
    rows = []
    for number, kind in enumerate(KINDS):
        alone, together = ([each[turn]["rates"][number] for each in found] for turn in (kind, "both"))
        shares = [one / other for one, other in zip(together, alone, strict=True)]
        gap = max(each["both"]["gaps"][number] for each in found) / 1000
        medians = [statistics.median(values) for values in (alone, together, shares)]
        rows.append(Row(kind, medians[0], medians[1], medians[2], min(shares), gap))
    return rows


def _uses(found: list[dict[str, Any]], processes: dict[str, int]) -> list[Use]:
    return [
        Use(name, *(statistics.median(each[turn]["cpu"][name] for each in found) for turn in TURNS))
        for name in processes
    ]
