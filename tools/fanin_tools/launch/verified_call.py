"""One collective call of one rank: its arrays, the call, and the comparison of every bit of the result."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import fanin
from fanin_tools.launch import exact_data
from fanin_tools.launch.collective_call import (
    ALL_RANKS,
    BARRIER,
    FROM_ROOT,
    REDUCTIONS,
    TO_ROOT,
    VECTOR,
    CollectiveCall,
    DataLayout,
    ElementRange,
)
from fanin_wire.datatypes import datatype_by_name

UNTOUCHED = 0xA5  # bytes of a result before the call
TIMEOUT_SECONDS = 60.0
CACHED_PERIODS = 600  # as many as one job of the matrix needs
METHODS = {"reduce_scatterv": "reduce_scatter"}  # methods of the library with a name of their own


class VerifiedCall:
    """A call on one rank, with filled arrays; it can be made any number of times. run: make the call and wait for the
    result. start: begin it and return the request."""

    def __init__(self, communicator: fanin.Communicator, call: CollectiveCall) -> None:
        self.communicator, self.call = communicator, call
        self._layout = DataLayout(call, communicator.size)
        self._contribution = self._layout.contribution(communicator.rank)
        self._expected = self._layout.expected_result(communicator.rank)
        contributed = self._contribution.elements if self._contribution else None
        self.source, self.result = self._arrays(contributed, _total(self._expected))
        self._fill()
        self._wrong_first = 0  # wrong elements after the first of two calls
        method, arguments = METHODS.get(call.collective, call.collective), self._arguments()
        self.start: Callable[[], fanin.Request] = functools.partial(getattr(communicator, f"i{method}"), **arguments)
        self.run: Callable[[], Any] = self._in_form(method, arguments)

    def _fill(self) -> None:
        """Put the memory into its state before the call."""
        if self.result is not None:
            self.result.view(np.uint8)[:] = UNTOUCHED
        if self._contribution is not None and self.source is not None:
            start = self._contribution.start + self.call.shift
            exact_data.fill(self.source, self._period(self._contribution), start)

    def _arrays(self, contributed: int | None, received: int | None) -> tuple[np.ndarray | None, np.ndarray | None]:
        """None without a contribution, or without a result. A broadcast always shares memory."""
        shared = self.call.in_place or self.call.collective == "broadcast"
        if contributed is None or received is None or not shared:
            return self._memory(contributed), self._memory(received)
        larger = self._memory(max(contributed, received))
        assert larger is not None
        start = self._layout.offset(self.communicator.rank)
        own = larger[start : start + min(contributed, received)]
        return (larger, own) if contributed >= received else (own, larger)

    def _memory(self, count: int | None) -> np.ndarray | None:
        if count is None:
            return None
        dtype = datatype_by_name(self.call.dtype).numpy
        return self.communicator.alloc(count, dtype) if self.call.registered else np.empty(count, dtype)

    def _period(self, elements: ElementRange) -> np.ndarray:
        return _period(self._layout.data, elements.rank, self._layout.period)

    def _arguments(self) -> dict[str, Any]:
        """Arguments of the library's method."""
        collective = self.call.collective
        arguments: dict[str, Any] = {}
        if collective == "broadcast":
            arguments["array"] = self.result
        elif collective != BARRIER:
            arguments |= {"array": self.source, "out": self.result}
        if collective in REDUCTIONS:
            arguments |= {"op": self.call.op, "datatype": self.call.dtype}
        if collective in FROM_ROOT + TO_ROOT:
            arguments["root"] = self.call.root
        if collective in VECTOR and self._passes_counts():
            arguments["counts"] = self._layout.counts
        return arguments

    def _passes_counts(self) -> bool:
        """Whether the rank passes the counts: where it must, else in every second call."""
        if self.call.collective == "scatterv":
            return self.communicator.rank == self.call.root
        return self.call.collective == "reduce_scatterv" or self.call.shift % 2 == 0

    def _in_form(self, method: str, arguments: dict[str, Any]) -> Callable[[], Any]:
        if self.call.form == "nonblocking":
            return lambda: self.start().wait(TIMEOUT_SECONDS)
        if self.call.form == "persistent":
            return lambda: self._persistent(method, arguments)
        blocking = functools.partial(getattr(self.communicator, method), **arguments, timeout=TIMEOUT_SECONDS)
        return blocking if self.call.form == "blocking" else lambda: self._repeated(blocking)

    def _repeated(self, blocking: Callable[[], Any]) -> None:
        """Twice: the library may take a shorter path for a call that it has made before."""
        blocking()
        self._wrong_first = self.wrong()
        self._fill()
        blocking()

    def _persistent(self, method: str, arguments: dict[str, Any]) -> None:
        with getattr(self.communicator, f"{method}_init")(**arguments, ordered=True) as request:
            request.start().wait(TIMEOUT_SECONDS)

    def wrong(self) -> int:
        """Elements of the result with a wrong bit."""
        if self._expected is None or self.result is None:
            return 0
        wrong, place = self._wrong_first, 0
        for piece in self._expected:
            array = self.result[place : place + piece.elements]
            wrong += exact_data.wrong_elements(array, self._period(piece), piece.start + self.call.shift)
            place += piece.elements
        return wrong


@functools.lru_cache(CACHED_PERIODS)
def _period(data: exact_data.ExactData, rank: int, count: int) -> np.ndarray:
    return data.reduced(count) if rank == ALL_RANKS else data.contribution(rank, count)


def _total(pieces: list[ElementRange] | None) -> int | None:
    return None if pieces is None else sum(piece.elements for piece in pieces)
