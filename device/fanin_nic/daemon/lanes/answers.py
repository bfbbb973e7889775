"""Answers of all lanes to one JOIN or LEAVE, put together to the one that the client gets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fanin_wire.abi import Status

SUCCESS, PENDING = int(Status["SUCCESS"]), int(Status["PENDING"])


@dataclass
class PendingRequest:
    """A request that the lanes have not all answered. `tag`: the client's; `answers`: records of ACTION by lane;
    `is_outdated`: its queue has asked for something else since, so that the answer changes nothing any more."""

    queue: int
    tag: int
    is_outdated: bool = False
    answers: dict[int, np.void] = field(default_factory=dict)


class Answers:
    """What is asked, by a number of our own that takes the place of the client's tag on the way through the engines.

    Tags of two clients may be equal, and an answer may come late for a queue that is another's by then.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._open: dict[int, PendingRequest] = {}
        self._last = 0

    def ask(self, queue: int, tag: int) -> int:
        """A new question; its number."""
        for question in self._open.values():
            question.is_outdated |= question.queue == queue
        self._last = (self._last + 1) & 0xFFFF_FFFF
        self._open[self._last] = PendingRequest(queue, tag)
        return self._last

    def forget(self, queue: int) -> None:
        """The answers to what a queue has asked interest nobody any more."""
        self._open = {number: question for number, question in self._open.items() if question.queue != queue}

    def add(self, lane: int, notice: np.void) -> PendingRequest | None:
        """One lane's answer. Returns the question if the client is to be told now: of a refusal (the first decides),
        that somebody is missing, or that all lanes have agreed. It stays open only if somebody is missing."""
        number = int(notice["wr_id"])
        question = self._open.get(number)
        if question is None:
            return None
        if notice["status"] == PENDING:
            return question
        question.answers[lane] = notice
        if notice["status"] == SUCCESS and len(question.answers) < self._lanes:
            return None
        del self._open[number]
        return question
