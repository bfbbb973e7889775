"""A collective to be tried: what each rank brings to it, and what each must have afterwards.

Written from the meaning of the collectives, not from the library's own table of them, which it is to judge. A message
is one run of elements, or one part for each rank, one after the other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from fanin_tools.launch.exact_data import MOVED, PERIOD, ExactData

REDUCTIONS = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter uneven")
DATA_MOVEMENTS = ("broadcast", "allgather", "gather", "scatter", "allgatherv", "gatherv", "scatterv")
BARRIER = "barrier"
COLLECTIVES = (*REDUCTIONS, *DATA_MOVEMENTS, BARRIER)
VECTOR = ("reduce_scatter uneven", "allgatherv", "gatherv", "scatterv")
UNDIVIDED = ("allreduce", "reduce", "broadcast")
FROM_ROOT = ("broadcast", "scatter", "scatterv")
TO_ROOT = ("reduce", "gather", "gatherv")
CALL_FORMS = ("blocking", "again", "nonblocking", "persistent")  # again: blocking, and tried the second time
REDUCED = -1  # in the place of a rank: the data of all, combined


@dataclass(frozen=True)
class CollectiveCall:
    """One collective with its parameters; equal on every rank.

    elements: of the message, or of a rank's part of it; where parts are uneven, of the largest
    registered: in memory that the device maps; in_place: the result lies where the data lay
    period: elements after which the data repeat, 0: as many as the message has, up to PERIOD; shift: where they begin
    """

    collective: str
    elements: int
    dtype: str = "f32"
    op: str = "sum"
    root: int = 0
    seed: int = 20
    registered: bool = True
    in_place: bool = False
    form: str = "blocking"
    period: int = 0
    shift: int = 0

    def as_dict(self) -> dict[str, Any]:
        """What is given to a rank process."""
        return asdict(self)

    def __str__(self) -> str:
        what = f"{self.collective} {self.op}" if self.collective in REDUCTIONS else self.collective
        root = [f"root {self.root}"] if self.collective in FROM_ROOT + TO_ROOT else []
        place = ["in place"] if self.in_place else []
        memory = "registered" if self.registered else "ordinary"
        details = ", ".join([self.form, memory, *root, *place])
        return f"{what} of {self.elements} {self.dtype} ({details})"


class ElementRange(NamedTuple):
    """`elements` that follow each other, from place `start` on, of the data of `rank`, or of what is REDUCED."""

    rank: int
    start: int
    elements: int


class CollectiveData:
    """A case among `size` ranks."""

    def __init__(self, case: CollectiveCall, size: int) -> None:
        self.case, self.size = case, size
        uneven = case.collective in VECTOR
        self.counts = [case.elements * (rank % 3) // 2 if uneven else case.elements for rank in range(size)]
        self.starts = list(accumulate(self.counts, initial=0))
        self.length = case.elements if case.collective in UNDIVIDED else self.starts[-1]
        self.data = ExactData(case.seed, size, case.dtype, case.op if case.collective in REDUCTIONS else MOVED)
        self.period = case.period or min(PERIOD, self.length)

    def contribution(self, rank: int) -> ElementRange | None:
        """What a rank brings; None if it brings nothing."""
        collective = self.case.collective
        if collective == BARRIER or (collective in FROM_ROOT and rank != self.case.root):
            return None
        whole = collective in REDUCTIONS + FROM_ROOT
        return ElementRange(rank, 0, self.length if whole else self.counts[rank])

    def expected_result(self, rank: int) -> list[ElementRange] | None:
        """What a rank has afterwards, piece by piece; None if it gets nothing."""
        collective = self.case.collective
        if collective == BARRIER or (collective in TO_ROOT and rank != self.case.root):
            return None
        if collective in REDUCTIONS + FROM_ROOT:
            source = self.case.root if collective in FROM_ROOT else REDUCED
            whole = collective in UNDIVIDED
            return [
                ElementRange(source, 0, self.length)
                if whole
                else ElementRange(source, self.starts[rank], self.counts[rank])
            ]
        return [ElementRange(other, 0, count) for other, count in enumerate(self.counts)]

    def offset(self, rank: int) -> int:
        """Where in the larger of its two arrays a rank's own part lies, if one is a part of the other."""
        return 0 if self.case.collective in UNDIVIDED else self.starts[rank]
