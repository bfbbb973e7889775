"""A collective call to be verified: the data of each rank, and the result that it must have.

Written from the meaning of the collectives, not from the library's table, which it verifies. A message is one range of
elements, or one part for each rank, in the order of the ranks.
"""

from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from fanin_tools.launch.exact_data import MOVED, PERIOD, ExactData

REDUCTIONS = ("allreduce", "reduce", "reduce_scatter", "reduce_scatterv")
DATA_MOVEMENTS = ("broadcast", "allgather", "gather", "scatter", "allgatherv", "gatherv", "scatterv")
BARRIER = "barrier"
COLLECTIVES = (*REDUCTIONS, *DATA_MOVEMENTS, BARRIER)
VECTOR = ("reduce_scatterv", "allgatherv", "gatherv", "scatterv")  # collectives with a count for each rank
UNDIVIDED = ("allreduce", "reduce", "broadcast")
FROM_ROOT = ("broadcast", "scatter", "scatterv")
TO_ROOT = ("reduce", "gather", "gatherv")
CALL_FORMS = ("blocking", "repeated", "nonblocking", "persistent")  # repeated: the same blocking call twice
ALL_RANKS = -1  # instead of a rank: the data of all ranks, reduced


@dataclass(frozen=True)
class CollectiveCall:
    """One collective with its parameters, the same on every rank.

    elements: in the message, or in a rank's part of it; of a vector collective, in the largest part. registered: the
    arrays are in memory that the device maps. in_place: the result is in the memory of the data. form: one of
    CALL_FORMS. period: elements after which the data repeat; 0: as many as the message has, up to PERIOD. shift: where
    in the period the data begin.
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
        """The call, for a rank process."""
        return asdict(self)

    def __str__(self) -> str:
        what = f"{self.collective} {self.op}" if self.collective in REDUCTIONS else self.collective
        root = [f"root {self.root}"] if self.collective in FROM_ROOT + TO_ROOT else []
        place = ["in place"] if self.in_place else []
        memory = "registered" if self.registered else "ordinary"
        details = ", ".join([self.form, memory, *root, *place])
        return f"{what} of {self.elements} {self.dtype} ({details})"


class ElementRange(NamedTuple):
    """`elements` neighbouring elements of the data of `rank` (or of ALL_RANKS), from `start` on."""

    rank: int
    start: int
    elements: int


class DataLayout:
    """Where the data of a call among `size` ranks come from and go to."""

    def __init__(self, call: CollectiveCall, size: int) -> None:
        self.call, self.size = call, size
        vector = call.collective in VECTOR
        self.counts = [call.elements * (rank % 3) // 2 if vector else call.elements for rank in range(size)]
        self.starts = list(accumulate(self.counts, initial=0))
        self.length = call.elements if call.collective in UNDIVIDED else self.starts[-1]
        self.data = ExactData(call.seed, size, call.dtype, call.op if call.collective in REDUCTIONS else MOVED)
        self.period = call.period or min(PERIOD, self.length)

    def contribution(self, rank: int) -> ElementRange | None:
        """None if the rank contributes nothing."""
        collective = self.call.collective
        if collective == BARRIER or (collective in FROM_ROOT and rank != self.call.root):
            return None
        whole = collective in REDUCTIONS + FROM_ROOT
        return ElementRange(rank, 0, self.length if whole else self.counts[rank])

    def expected_result(self, rank: int) -> list[ElementRange] | None:
        """The result that a rank must have, piece by piece; None if it gets nothing."""
        collective = self.call.collective
        if collective == BARRIER or (collective in TO_ROOT and rank != self.call.root):
            return None
        if collective in REDUCTIONS + FROM_ROOT:
            source = self.call.root if collective in FROM_ROOT else ALL_RANKS
            if collective in UNDIVIDED:
                return [ElementRange(source, 0, self.length)]
            return [ElementRange(source, self.starts[rank], self.counts[rank])]
        return [ElementRange(other, 0, count) for other, count in enumerate(self.counts)]

    def offset(self, rank: int) -> int:
        """The element at which a rank's own part begins in the larger array, if its arrays share memory."""
        return 0 if self.call.collective in UNDIVIDED else self.starts[rank]
