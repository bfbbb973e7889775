"""One collective tried by one rank: its arrays made and filled, the call, and every bit of the result compared."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import fanin
from fanin_tools.launch import exact_data
from fanin_tools.launch.collective_call import (
    BARRIER,
    FROM_ROOT,
    REDUCED,
    REDUCTIONS,
    TO_ROOT,
    VECTOR,
    CollectiveCall,
    CollectiveData,
    ElementRange,
)
from fanin_wire.datatypes import datatype_by_name

UNTOUCHED = 0xA5  # every byte of a result's memory before
SECONDS = 60.0  # for all ranks to take part
KEPT_PERIODS = 600  # as many as one job of the matrix needs


class VerifiedCall:
    """A case on one rank of a communicator; made, it is ready to be called any number of times.

    act: take part and wait for the result. start: take part and return at once, with the request.
    """

    def __init__(self, communicator: fanin.Communicator, case: CollectiveCall) -> None:
        self.communicator, self.case = communicator, case
        self._message = CollectiveData(case, communicator.size)
        self._contribution, self._expected = (
            self._message.contribution(communicator.rank),
            self._message.expected_result(communicator.rank),
        )
        brought = self._contribution.elements if self._contribution else None
        self.source, self.result = self._arrays(brought, _total(self._expected))
        self._fill()
        self._wrong_first = 0  # of two calls
        name, arguments = case.collective.split()[0], self._arguments()
        self.start: Callable[[], fanin.Request] = functools.partial(getattr(communicator, f"i{name}"), **arguments)
        self.run: Callable[[], Any] = self._form(name, arguments)

    def _fill(self) -> None:
        """The memory as it is to be before the call."""
        if self.result is not None:
            self.result.view(np.uint8)[:] = UNTOUCHED
        if self._contribution is not None and self.source is not None:
            exact_data.fill(self.source, self._period(self._contribution), self._contribution.start + self.case.shift)

    def _arrays(self, brought: int | None, gotten: int | None) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Memory of what the rank brings and of what it gets; None where there is none. Broadcasts share it always."""
        shared = self.case.in_place or self.case.collective == "broadcast"
        if brought is None or gotten is None or not shared:
            return self._memory(brought), self._memory(gotten)
        larger = self._memory(max(brought, gotten))
        assert larger is not None
        start = self._message.offset(self.communicator.rank)
        own = larger[start : start + min(brought, gotten)]
        return (larger, own) if brought >= gotten else (own, larger)

    def _memory(self, count: int | None) -> np.ndarray | None:
        if count is None:
            return None
        dtype = datatype_by_name(self.case.dtype).numpy
        return self.communicator.alloc(count, dtype) if self.case.registered else np.empty(count, dtype)

    def _period(self, run: ElementRange) -> np.ndarray:
        return _period(self._message.data, run.rank, self._message.period)

    def _arguments(self) -> dict[str, Any]:
        """Of the library's method."""
        collective = self.case.collective
        arguments: dict[str, Any] = {}
        if collective == "broadcast":
            arguments["array"] = self.result
        elif collective != BARRIER:
            arguments |= {"array": self.source, "out": self.result}
        if collective in REDUCTIONS:
            arguments |= {"op": self.case.op, "datatype": self.case.dtype}
        if collective in FROM_ROOT + TO_ROOT:
            arguments["root"] = self.case.root
        if collective in VECTOR and self._tells_counts():
            arguments["counts"] = self._message.counts
        return arguments

    def _tells_counts(self) -> bool:
        """Whether the rank gives the counts: always where it must, else in every other case."""
        if self.case.collective == "scatterv":
            return self.communicator.rank == self.case.root
        return self.case.collective == "reduce_scatter uneven" or self.case.shift % 2 == 0

    def _form(self, name: str, arguments: dict[str, Any]) -> Callable[[], Any]:
        if self.case.form == "nonblocking":
            return lambda: self.start().wait(SECONDS)
        if self.case.form == "persistent":
            return lambda: self._prepared(name, arguments)
        call = functools.partial(getattr(self.communicator, name), **arguments, timeout=SECONDS)
        return call if self.case.form == "blocking" else lambda: self._twice(call)

    def _twice(self, call: Callable[[], Any]) -> None:
        """The library remembers a blocking call that it has done, and does it another way the second time."""
        call()
        self._wrong_first = self.wrong()
        self._fill()
        call()

    def _prepared(self, name: str, arguments: dict[str, Any]) -> None:
        with getattr(self.communicator, f"{name}_init")(**arguments, ordered=True) as request:
            request.start().wait(SECONDS)

    def wrong(self) -> int:
        """Elements of the result that have a wrong bit."""
        if self._expected is None or self.result is None:
            return 0
        wrong, place = self._wrong_first, 0
        for run in self._expected:
            piece = self.result[place : place + run.elements]
            wrong += exact_data.wrong_elements(piece, self._period(run), run.start + self.case.shift)
            place += run.elements
        return wrong


@functools.lru_cache(KEPT_PERIODS)
def _period(data: exact_data.ExactData, rank: int, count: int) -> np.ndarray:
    return data.reduced(count) if rank == REDUCED else data.contribution(rank, count)


def _total(runs: list[ElementRange] | None) -> int | None:
    return None if runs is None else sum(run.elements for run in runs)
