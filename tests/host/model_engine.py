"""A model of the engine behind the control server: jobs of one node, in Python, without network and segments."""

import time
from typing import Any

import numpy as np
from model_jobs import Job, Queue
from model_memory import Memory, Region
from model_messages import Message

from fanin_nic.hostif import rings
from fanin_nic.hostif.messages import join_reply, leave_reply
from fanin_nic.hostif.ports import NoResources, Refused
from fanin_nic.hostif.server import ControlServer
from fanin_wire import abi
from fanin_wire.abi import Status, WqeFlag, WqeOpcode

MAX_QUEUES = 64


class ModelEngine:
    """Implements fanin_nic.hostif.ports.EnginePort."""

    def __init__(self) -> None:
        self.server: ControlServer | None = None
        self.memory = Memory()
        self.queues: dict[int, Queue] = {}
        self.jobs: dict[int, Job] = {}
        self.completed = 0  # completions in the rings
        self.overruns = 0
        self.wqe = np.zeros(1, abi.WQE)

    def status(self) -> dict[str, Any]:
        return {
            "name": "model",
            "kind": "nic",
            "clients": len(self.memory.processes),
            "regions": len(self.memory.regions),
            "queues": len(self.queues),
            "completed": self.completed,
            "overruns": self.overruns,
            "jobs": [
                {"jid": job.jid, "children_missing": job.missing(), "slots": job.slots} for job in self.jobs.values()
            ],
        }

    def attach(self, client: int, memory_fd: int) -> None:
        self.memory.processes[client] = memory_fd

    def detach(self, client: int) -> None:
        del self.memory.processes[client]

    def register(self, client: int, lkey: int, start: int, length: int, access: int, device_address: int) -> None:
        self.memory.regions[client, lkey] = Region(start, length, access, device_address)

    def deregister(self, client: int, lkey: int) -> None:
        del self.memory.regions[client, lkey]

    def create_queue(self, client: int, qp: int, cq: int, sq_address: int, cq_address: int, aq_address: int = 0) -> int:
        for index in range(MAX_QUEUES):
            if index not in self.queues:
                self.queues[index] = Queue(client, qp, sq_address, cq_address)
                return index
        raise NoResources("queues")

    def destroy_queue(self, queue: int, flush: bool = False) -> None:
        entry = self.queues.pop(queue)
        if flush:
            self._give_back(entry)
        if (job := entry.job) is None:
            return
        if entry.ranks in job.joined and not job.left & entry.ranks:
            job.fail(Status.PEER_LOST, entry.ranks)
        self._forget(job, entry)

    def join(self, queue: int, request: np.void) -> None:
        entry, digest = self.queues[queue], request["digest"].tobytes()
        if entry.job is not None:
            raise Refused(Status.INVALID_REQUEST, "joined already")
        job = self.jobs.get(int(request["jid"]))
        if job is None:
            job = Job.of(request, digest)
            self.jobs[job.jid] = job
        if job.key != request["key"]:
            raise Refused(Status.JID_IN_USE)
        if job.digest != digest or int(request["rank_bitmap"]) in job.joined:
            raise Refused(Status.MEMBERS_MISMATCH)
        entry.job, entry.ranks = job, int(request["rank_bitmap"])
        job.joined[entry.ranks] = (entry, int(request["head"]["tag"]))
        self._answer_joins(job)

    def _answer_joins(self, job: Job) -> None:
        status = Status.PENDING if job.missing() else Status.SUCCESS
        for entry, tag in job.joined.values():
            self._notice(entry, join_reply(tag, status, job.slots, job.slots // 2, job.chunk, job.missing()))

    def leave(self, queue: int, tag: int) -> None:
        entry = self.queues[queue]
        if entry.job is None:
            raise Refused(Status.NOT_CONFIGURED)
        if self._give_back(entry):
            entry.job.fail(Status.ABORTED, entry.ranks)
        entry.job.left |= entry.ranks
        self._notice(entry, leave_reply(tag, Status.SUCCESS))

    def _give_back(self, entry: Queue) -> bool:
        """Complete all that a queue has under way, FLUSHED; whether there was any."""
        while self._fetch(entry):
            continue
        found = bool(entry.posted)
        while entry.posted:
            self._complete(entry, Status.FLUSHED)
        self._flush(entry)
        return found

    def _forget(self, job: Job, entry: Queue) -> None:
        job.joined.pop(entry.ranks, None)
        if not job.joined:
            self.jobs.pop(job.jid, None)

    def _notice(self, entry: Queue, data: bytes) -> None:
        assert self.server is not None
        self.server.notice(entry.client, data)

    def waits(self) -> bool:
        """Whether time matters: something is posted and not complete."""
        return any(entry.posted or entry.completions for entry in self.queues.values())

    def progress(self) -> bool:
        """One round over all queues and jobs; whether anything was done."""
        moved = [self._fetch(entry) for entry in self.queues.values()]
        moved += [self._advance(job) for job in list(self.jobs.values())]
        moved += [self._flush(entry) for entry in self.queues.values()]
        return any(moved)

    def _fetch(self, entry: Queue) -> bool:
        if len(entry.posted) == abi.SQ_DEPTH or not rings.fetch(entry.sq, self.wqe.ctypes.data):
            return False
        wqe = self.wqe.copy()[0]
        if wqe["opcode"] == WqeOpcode.QUERY:
            entry.completions.append(self._answer(entry, wqe))
            return True
        entry.posted.append(wqe)
        entry.arrivals.append(time.monotonic())
        if entry.job is None or (entry.job.missing() and not entry.job.failure):
            self._complete(entry, Status.NOT_CONFIGURED)
        return True

    def _answer(self, entry: Queue, wqe: np.void) -> np.ndarray:
        """Ranks that have not posted the message; SUCCESS if it is not under way."""
        order = [int(posted["mid"]) for posted in entry.posted]
        if entry.job is None or wqe["mid"] not in order:
            return _completion(entry, wqe, Status.SUCCESS)
        place = order.index(wqe["mid"])
        late = sum(other.ranks for other, _ in entry.job.joined.values() if len(other.posted) <= place)
        return _completion(entry, wqe, Status.PENDING, late)

    def _flush(self, entry: Queue) -> bool:
        before = len(entry.completions)
        while entry.completions and not entry.overrun:
            if rings.complete(entry.cq, entry.completions[0].ctypes.data):
                entry.completions.popleft()
                self.completed += 1
            else:
                self._overrun(entry)
        return len(entry.completions) != before

    def _overrun(self, entry: Queue) -> None:
        """The ring has no room for a completion: the job ends."""
        entry.overrun = True
        self.overruns += 1
        entry.completions.clear()
        if entry.job is not None:
            entry.job.fail(Status.CQ_OVERRUN)

    def _advance(self, job: Job) -> bool:
        entries = [job.joined[ranks][0] for ranks in sorted(job.joined)]
        for entry in entries:
            self._pass_marks(entry, *(job.failure or (Status.SUCCESS,)))
        waiting = [entry for entry in entries if entry.posted]
        if job.failure:
            for entry in waiting:
                self._complete(entry, *job.failure)
            return bool(waiting)
        if job.missing() or not waiting:
            return False
        if len(waiting) == len(entries):
            self._carry_out(job, entries)
            return True
        return self._expire(entries, waiting)

    def _pass_marks(self, entry: Queue, status: int, missing: int = 0) -> None:
        """A request without positions ends when those before it have."""
        while entry.posted and not entry.posted[0]["segments"]:
            self._complete(entry, status, missing)

    def _expire(self, entries: list[Queue], waiting: list[Queue]) -> bool:
        missing = sum(entry.ranks for entry in entries if not entry.posted)
        late = [
            entry
            for entry in waiting
            if 0 < entry.posted[0]["deadline_ms"] < (time.monotonic() - entry.arrivals[0]) * 1000
        ]
        for entry in late:
            self._complete(entry, Status.TIMEOUT, missing)
        return bool(late)

    def _carry_out(self, job: Job, entries: list[Queue]) -> None:
        try:
            Message(job, entries, self.memory).carry_out()
        except Refused as refused:
            job.fail(refused.status)
            return
        for entry in entries:
            self._complete(entry, Status.SUCCESS)

    def _complete(self, entry: Queue, status: int, missing: int = 0) -> None:
        wqe = entry.posted.popleft()
        entry.arrivals.popleft()
        if status or wqe["flags"] & WqeFlag.SIGNALED:
            entry.completions.append(_completion(entry, wqe, status, missing))


def _completion(entry: Queue, wqe: np.void, status: int, missing: int = 0) -> np.ndarray:
    cqe = np.zeros(1, abi.CQE)
    for name in ("wr_id", "jid", "mid", "opcode"):
        cqe[name] = wqe[name]
    cqe["status"], cqe["missing"], cqe["qp"] = status, missing, entry.qp
    if not status:
        cqe["byte_length"], cqe["positions"] = wqe["length"], wqe["segments"]
    return cqe
