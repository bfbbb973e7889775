"""A model of the engine behind the control server: jobs of one node, computed with the numpy oracles, no network."""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fanin_nic.hostif import rings
from fanin_nic.hostif.engine_port import NoResources, Refused
from fanin_nic.hostif.mapping import record_view
from fanin_nic.hostif.messages import join_reply, leave_reply
from fanin_nic.hostif.server import ControlServer
from fanin_wire import abi
from fanin_wire.abi import Access, Status
from fanin_wire.datatypes import datatype_by_code
from fanin_wire.operations import operation_by_code

MAX_QUEUES = 64


@dataclass
class Region:
    """A client's bytes from `start`, mapped at `device_address`."""

    start: int
    length: int
    access: int
    device_address: int


@dataclass
class Queue:
    """A queue pair: where it is, what it has posted, what could not be completed yet."""

    client: int
    qp: int
    sq: int
    cq: int
    job: Job | None = None
    ranks: int = 0
    posted: deque[np.void] = field(default_factory=deque)
    arrivals: deque[float] = field(default_factory=deque)
    completions: deque[np.ndarray] = field(default_factory=deque)


@dataclass
class Job:
    """A job of this node; `joined` has the queue and the tag of each rank bitmap that has joined."""

    jid: int
    key: int
    mask: int
    digest: bytes
    chunk: int
    joined: dict[int, tuple[Queue, int]] = field(default_factory=dict)
    left: int = 0
    failure: tuple[int, int] | None = None  # status, missing ranks

    def missing(self) -> int:
        """Ranks that have not joined."""
        return self.mask & ~sum(self.joined)


class ModelEngine:
    """Implements fanin_nic.hostif.engine_port.EnginePort."""

    def __init__(self) -> None:
        self.server: ControlServer | None = None
        self.memory: dict[int, int] = {}
        self.regions: dict[tuple[int, int], Region] = {}
        self.queues: dict[int, Queue] = {}
        self.jobs: dict[int, Job] = {}
        self.completed = 0  # completions in the rings
        self.wqe = np.zeros(1, abi.WQE)

    def status(self) -> dict[str, Any]:
        """What the tests look at."""
        return {
            "name": "model",
            "kind": "nic",
            "clients": len(self.memory),
            "regions": len(self.regions),
            "queues": len(self.queues),
            "completed": self.completed,
            "jobs": [{"jid": job.jid, "children_missing": job.missing()} for job in self.jobs.values()],
        }

    def attach(self, client: int, memory_fd: int) -> None:
        self.memory[client] = memory_fd

    def detach(self, client: int) -> None:
        del self.memory[client]

    def register(self, client: int, lkey: int, start: int, length: int, access: int, device_address: int) -> None:
        self.regions[client, lkey] = Region(start, length, access, device_address)

    def deregister(self, client: int, lkey: int) -> None:
        del self.regions[client, lkey]

    def create_queue(self, client: int, qp: int, cq: int, sq_address: int, cq_address: int) -> int:
        for index in range(MAX_QUEUES):
            if index not in self.queues:
                self.queues[index] = Queue(client, qp, sq_address, cq_address)
                return index
        raise NoResources("queues")

    def destroy_queue(self, queue: int) -> None:
        entry = self.queues.pop(queue)
        if (job := entry.job) is None:
            return
        if entry.ranks in job.joined and not job.left & entry.ranks:
            job.failure = job.failure or (int(Status["PEER_LOST"]), entry.ranks)
        self._forget(job, entry)

    def join(self, queue: int, request: np.void) -> None:
        entry, digest = self.queues[queue], request["digest"].tobytes()
        if entry.job is not None:
            raise Refused(Status["INVALID_REQUEST"], "joined already")
        job = self.jobs.get(int(request["jid"]))
        if job is None:
            job = Job(*(int(request[name]) for name in ("jid", "key", "rank_mask")), digest, int(request["chunk"]))
            self.jobs[job.jid] = job
        if job.key != request["key"]:
            raise Refused(Status["JID_IN_USE"])
        if job.digest != digest or int(request["rank_bitmap"]) in job.joined:
            raise Refused(Status["MEMBERS_MISMATCH"])
        entry.job, entry.ranks = job, int(request["rank_bitmap"])
        job.joined[entry.ranks] = (entry, int(request["head"]["tag"]))
        self._answer_joins(job, slots=int(request["slots"]))

    def _answer_joins(self, job: Job, slots: int) -> None:
        status = Status["PENDING"] if job.missing() else Status["SUCCESS"]
        for entry, tag in job.joined.values():
            self._notice(entry, join_reply(tag, status, slots, slots // 2, job.chunk, job.missing()))

    def leave(self, queue: int, tag: int) -> None:
        entry = self.queues[queue]
        if entry.job is None:
            raise Refused(Status["NOT_CONFIGURED"])
        entry.job.left |= entry.ranks
        self._notice(entry, leave_reply(tag, Status["SUCCESS"]))

    def _forget(self, job: Job, entry: Queue) -> None:
        job.joined.pop(entry.ranks, None)
        if not job.joined:
            self.jobs.pop(job.jid, None)

    def _notice(self, entry: Queue, data: bytes) -> None:
        assert self.server is not None
        self.server.notice(entry.client, data)

    def waits(self) -> bool:
        """Whether time matters: something has been posted and is not complete."""
        return any(entry.posted or entry.completions for entry in self.queues.values())

    def progress(self) -> bool:
        """One round over all queues and jobs; whether anything was done."""
        moved = [self._fetch(entry) for entry in self.queues.values()]
        moved += [self._advance(job) for job in list(self.jobs.values())]
        moved += [self._flush(entry) for entry in self.queues.values()]
        return any(moved)

    def _fetch(self, entry: Queue) -> bool:
        if not rings.fetch(entry.sq, self.wqe.ctypes.data):
            return False
        entry.posted.append(self.wqe.copy()[0])
        entry.arrivals.append(time.monotonic())
        if entry.job is None or (entry.job.missing() and not entry.job.failure):
            self._complete(entry, Status["NOT_CONFIGURED"])
        return True

    def _flush(self, entry: Queue) -> bool:
        before = len(entry.completions)
        while entry.completions and rings.complete(entry.cq, entry.completions[0].ctypes.data):
            entry.completions.popleft()
            self.completed += 1
        return len(entry.completions) != before

    def _advance(self, job: Job) -> bool:
        entries = [job.joined[ranks][0] for ranks in sorted(job.joined)]
        waiting = [entry for entry in entries if entry.posted]
        if job.failure:
            for entry in waiting:
                self._complete(entry, *job.failure)
            return bool(waiting)
        if job.missing() or not waiting:
            return False
        if len(waiting) == len(entries):
            self._reduce(job, entries)
            return True
        return self._expire(entries, waiting)

    def _expire(self, entries: list[Queue], waiting: list[Queue]) -> bool:
        missing = sum(entry.ranks for entry in entries if not entry.posted)
        late = [
            entry
            for entry in waiting
            if 0 < entry.posted[0]["deadline_ms"] < (time.monotonic() - entry.arrivals[0]) * 1000
        ]
        for entry in late:
            self._complete(entry, Status["TIMEOUT"], missing)
        return bool(late)

    def _reduce(self, job: Job, entries: list[Queue]) -> None:
        requests = [entry.posted[0] for entry in entries]
        kinds = {tuple(int(wqe[name]) for name in ("op", "dtype", "length", "mid", "seg")) for wqe in requests}
        if len(kinds) > 1:
            job.failure = (int(Status["OP_MISMATCH"]), 0)
            return
        try:
            result = self._compute(entries, requests)
            for entry, wqe in zip(entries, requests, strict=True):
                self._move(entry, wqe, "destination", result)
        except Refused as refused:
            job.failure = (refused.status, 0)
            return
        for entry in entries:
            self._complete(entry, Status["SUCCESS"])

    def _compute(self, entries: list[Queue], requests: list[np.void]) -> np.ndarray:
        dtype = datatype_by_code(requests[0]["dtype"]).numpy
        data = [self._move(entry, wqe, "source") for entry, wqe in zip(entries, requests, strict=True)]
        return operation_by_code(requests[0]["op"]).oracle(np.stack([piece.view(dtype) for piece in data])).view("u1")

    def _move(self, entry: Queue, wqe: np.void, side: str, data: np.ndarray | None = None) -> np.ndarray:
        """Read (or, with `data`, write) what the first address of a WQE names, in either kind of memory."""
        address, length, lkey = int(wqe["address"][0][side]), int(wqe["length"]), int(wqe[f"{side}_lkey"])
        if lkey == abi.LKEY_PROCESS:
            return self._move_process(self.memory[entry.client], address, length, data)
        region = self.regions.get((entry.client, lkey))
        right = Access["READ"] if data is None else Access["WRITE"]
        inside = region and region.start <= address and address + length <= region.start + region.length
        if region is None or not inside or not region.access & right:
            raise Refused(Status["LOCAL_PROTECTION_ERROR"])
        view = record_view(region.device_address + address - region.start, np.dtype(("u1", (length,))))
        if data is not None:
            view[:] = data
        return view.copy().reshape(-1)

    def _move_process(self, descriptor: int, address: int, length: int, data: np.ndarray | None) -> np.ndarray:
        buffer = np.empty(length, "u1") if data is None else data
        try:
            moved = (os.preadv if data is None else os.pwritev)(descriptor, [buffer], address)
        except OSError:
            moved = -1
        if moved != length:
            raise Refused(Status["LOCAL_PROTECTION_ERROR"])
        return buffer

    def _complete(self, entry: Queue, status: int, missing: int = 0) -> None:
        wqe = entry.posted.popleft()
        entry.arrivals.popleft()
        cqe = np.zeros(1, abi.CQE)
        for name in ("wr_id", "jid", "mid", "opcode"):
            cqe[name] = wqe[name]
        cqe["status"], cqe["missing"], cqe["qp"] = status, missing, entry.qp
        cqe["byte_length"] = 0 if status else wqe["length"]
        entry.completions.append(cqe)
