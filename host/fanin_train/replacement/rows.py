"""The rows, of equal length, that the processes exchange when they agree."""

import msgspec
import numpy as np

from fanin import Communicator
from fanin_train.errors import TrainingError

ROW_BYTES = 4096


class RowTooLong(TrainingError):
    """Names or rings that exceed a row."""

    def __init__(self, length: int) -> None:
        super().__init__(
            f"ROW_TOO_LONG: a row has {length} bytes, and room for {ROW_BYTES}", "use shorter names, or fewer workers"
        )


class Row(msgspec.Struct, frozen=True):
    """A process.

    member: its number, fixed: its rank in the first pool
    kind, peak: type of its node, and FLOP/s
    epoch, ring: number of changes of the ring, as far as it knows, and the ring: members by position
    done: steps that it has completed; -1: it has no state yet
    finished: whether it has heard that all steps of all workers are done
    step_times, compute_times: seconds of its last steps, and of them without communication
    """

    member: int
    kind: str
    peak: float
    epoch: int
    ring: tuple[int, ...]
    done: int = -1
    finished: bool = False
    step_times: tuple[float, ...] = ()
    compute_times: tuple[float, ...] = ()


def exchange(pool: Communicator, row: Row, timeout: float) -> list[Row]:
    """The rows of all, by their rank in `pool`."""
    text = msgspec.json.encode(row)
    if len(text) > ROW_BYTES:
        raise RowTooLong(len(text))
    rows = pool.allgather(np.frombuffer(text.ljust(ROW_BYTES), np.uint8), timeout=timeout)
    return [msgspec.json.decode(each.tobytes(), type=Row) for each in rows]
