"""The engines of several lanes, which the control server sees as one (hostif.ports.EnginePort)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.daemon.lanes.host_port import End
from fanin_nic.daemon.lanes.threads import LaneThreads
from fanin_nic.daemon.splitter.splitter import Splitter
from fanin_nic.hostif.ports import Refused
from fanin_wire.abi import MessageType, Status
from fanin_wire.status import NAMING_A_DEVICE


@dataclass
class PendingRequest:
    """A request that not all lanes have answered. tag: of the client. answers: records of ACTION by lane. is_outdated:
    the queue has sent another request since, so the answer changes nothing."""

    queue: int
    tag: int
    is_outdated: bool = False
    answers: dict[int, np.void] = field(default_factory=dict)


class Answers:
    """Merges the answers of all lanes to a JOIN or LEAVE into the answer to the client. A number replaces the client's
    tag in the engines: tags of two clients may be equal, and a late answer may come when the queue has another
    owner."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._open: dict[int, PendingRequest] = {}
        self._last = 0

    def ask(self, queue: int, tag: int) -> int:
        """Enter a request; returns its number."""
        for question in self._open.values():
            question.is_outdated |= question.queue == queue
        self._last = (self._last + 1) & 0xFFFF_FFFF
        self._open[self._last] = PendingRequest(queue, tag)
        return self._last

    def forget(self, queue: int) -> None:
        """Drop the requests of a queue, whose answers are then ignored."""
        self._open = {number: question for number, question in self._open.items() if question.queue != queue}

    def add(self, lane: int, notice: np.void) -> PendingRequest | None:
        """Take the answer of one lane. Returns the request if the client gets an answer now: a refusal (the first
        counts), missing members, or the agreement of all lanes. Only with missing members the request stays."""
        number = int(notice["wr_id"])
        question = self._open.get(number)
        if question is None:
            return None
        if notice["status"] == Status.PENDING:
            return question
        question.answers[lane] = notice
        if notice["status"] == Status.SUCCESS and len(question.answers) < self._lanes:
            return None
        del self._open[number]
        return question


class LanesHost:
    """Gives every request to every lane, while all lanes stand still. All engines do the same with it, so their tables
    of queues and regions stay equal: a queue has the same number in every lane, and a table is full in all lanes or in
    none."""

    def __init__(self, cores: list[LaneCore], splitter: Splitter, threads: LaneThreads) -> None:
        self._cores, self._splitter, self._threads = cores, splitter, threads
        self._hosts = [core.host for core in cores]
        self._answers = Answers(len(cores))
        self._aborted = self._jobs_aborted()  # as known to all lanes

    def attach(self, client: int, memory_fd: int, remote: int = 0) -> None:
        """Clients over RDMA need a device of one lane."""
        if remote:
            raise Refused(Status.NOT_SUPPORTED, "a client over RDMA at a device of several lanes")
        with self._threads.paused():
            for host in self._hosts:
                host.attach(client, memory_fd)

    def detach(self, client: int) -> None:
        with self._threads.paused():
            for host in self._hosts:
                host.detach(client)

    def register(self, client: int, lkey: int, start: int, length: int, access: int, device_address: int) -> None:
        with self._threads.paused():
            for host in self._hosts:
                host.register(client, lkey, start, length, access, device_address)

    def deregister(self, client: int, lkey: int) -> None:
        """A request that still uses the region ends with its job."""
        with self._threads.paused():
            for host in self._hosts:
                host.deregister(client, lkey)

    def create_queue(self, client: int, qp: int, cq: int, sq_address: int, cq_address: int, aq_address: int = 0) -> int:
        """Returns the number of the queue. Early data are short, so they are in lane 0."""
        with self._changed_queues():
            first, *others = self._hosts
            queue = first.create_queue(client, qp, cq, 0, 0, aq_address)
            for host in others:
                host.create_queue(client, qp, cq, 0, 0)
            for host, rings in zip(self._hosts, self._splitter.open(queue, qp, sq_address, cq_address), strict=True):
                host.send_rings[queue], host.completion_rings[queue] = rings
        return queue

    def destroy_queue(self, queue: int, flush: bool = False) -> None:
        """A job that the queue is still in ends. flush: complete its unfinished requests as FLUSHED."""
        self._answers.forget(queue)
        with self._changed_queues():
            self._splitter.merge()
            for host in self._hosts:
                host.destroy_queue(queue, flush)
            if flush:
                self._splitter.flush(queue)
            self._splitter.close(queue)

    @contextmanager
    def _changed_queues(self) -> Iterator[None]:
        """Hold the lanes for the block, then show them the queues. (Lane 0 looks each time it runs.)"""
        with self._threads.paused():
            yield
            for core in self._cores[1:]:
                core.refresh([])

    def join(self, queue: int, request: np.void) -> None:
        """Join with every lane."""
        if self._hosts[0].is_in_job(queue):  # a refused JOIN would end the job that its queue is in
            raise Refused(Status.INVALID_REQUEST, "the queue pair is in a job, or joins one")
        request = request.copy()
        request["head"]["tag"] = self._answers.ask(queue, int(request["head"]["tag"]))
        with self._threads.paused():
            for host in self._hosts:
                host.join(queue, request)

    def leave(self, queue: int, tag: int) -> None:
        """Leave with every lane."""
        number = self._answers.ask(queue, tag)
        with self._threads.paused():
            self._leave(queue, number)

    def _leave(self, queue: int, number: int) -> None:
        self._splitter.merge()
        for host in self._hosts:
            host.leave(queue, number)
        self._splitter.flush(queue)
        self._splitter.leave(queue)

    def answer(self, lane: int, notice: np.void) -> np.void | None:
        """Take the answer of one lane; returns the answer to the client, once complete."""
        question = self._answers.add(lane, notice)
        if question is None:
            return None
        answer = notice.copy()
        answer["wr_id"] = question.tag
        if question.is_outdated:
            return answer
        if notice["opcode"] == MessageType.JOIN and notice["status"] == Status.SUCCESS:
            self._start(question.queue, answer, [question.answers[number] for number in range(len(self._hosts))])
        elif notice["opcode"] == MessageType.JOIN and notice["status"] != Status.PENDING:
            status = int(notice["status"])
            lost = int(notice["byte_length"]) if status in NAMING_A_DEVICE else 0
            self._give_up(question.queue, End(status, int(notice["missing_kind"]), int(notice["missing"]), lost))
        return answer

    def _start(self, queue: int, answer: np.void, answers: list[np.void]) -> None:
        """All lanes have joined: start the client's stream, with the smallest lease of a lane."""
        slots = [int(each["byte_length"]) for each in answers]
        answer["byte_length"] = self._splitter.join(queue, slots)
        answer["window"] = min(int(each["window"]) for each in answers)

    def _give_up(self, queue: int, end: End) -> None:
        """One lane has refused: end the job in all others."""
        with self._threads.paused():
            for host in self._hosts:
                host.end_job(queue, end)
            self._leave(queue, 0)

    def spread_ends(self) -> None:
        """End jobs that ended in one lane in all, with the same status; and jobs whose completions had no room."""
        overrun = self._splitter.take_overruns()
        if not overrun and self._jobs_aborted() == self._aborted:
            return
        with self._threads.paused():
            for queue in overrun:
                self._hosts[0].fail(queue, Status.CQ_OVERRUN)
            for queue in range(self._hosts[0].queues_in_use):
                self._spread_end(queue)
            self._aborted = self._jobs_aborted()

    def _spread_end(self, queue: int) -> None:
        end = next(filter(None, (host.end_of_job(queue) for host in self._hosts)), None)
        if end is not None:
            for host in self._hosts:
                host.end_job(queue, end)

    def _jobs_aborted(self) -> list[int]:
        """Number of jobs that ended early, by lane."""
        return [core.jobs_aborted for core in self._cores]
