"""Answers of all lanes to one JOIN or LEAVE, merged into the answer to the client."""

from dataclasses import dataclass, field

import numpy as np

from fanin_wire.abi import Status


@dataclass
class PendingRequest:
    """A request that not all lanes have answered. tag: of the client. answers: records of ACTION by lane. is_outdated:
    the queue has sent another request since, so the answer changes nothing."""

    queue: int
    tag: int
    is_outdated: bool = False
    answers: dict[int, np.void] = field(default_factory=dict)


class Answers:
    """Requests that wait for answers, by a number that replaces the client's tag in the engines: tags of two clients
    may be equal, and a late answer may come when the queue has another owner."""

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
