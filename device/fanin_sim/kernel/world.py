"""The tables of a world, made once for any number of schedules."""

from types import ModuleType

import numpy as np

from fanin_sim.kernel.calls import entry_point
from fanin_sim.kernel.tables import EVENT, PACKET, TRACE


class Tables:
    """A WORLD record and the tables that it names. trace: the table of lines."""

    trace: np.ndarray

    def __init__(self, world: np.dtype) -> None:
        self._kept: list[object] = []
        self.memory = np.zeros(1, world)
        self.record = self.memory[0]

    @property
    def address(self) -> int:
        return int(self.memory.ctypes.data)

    def _table(self, name: str, dtype: np.dtype, rows: int) -> np.ndarray:
        table = np.zeros(max(1, rows), dtype)
        self._kept.append(table)
        self.record[name] = table.ctypes.data
        return table

    def _name_events(self, events: ModuleType, arguments: dict[str, int]) -> None:
        """Stores the address of each event in on_NAME, compiled if necessary. arguments: how many each has."""
        for name, count in arguments.items():
            self.record[f"on_{name}"] = entry_point(getattr(events, name), count)

    def _make_kernel_room(self, packets: int, stride: int, sent: int, removed: int, lines: int) -> None:
        """Makes the tables of the kernel: for packets of at most `stride` bytes, counters of packets sent and of
        packets removed in a row, and lines of a trace."""
        record = self.record
        record["queue_room"], record["packet_room"], record["packet_stride"] = 4 * packets, packets, stride
        self._table("queue", EVENT, 4 * packets + 1)
        self._table("packets", PACKET, packets)
        self._table("packet_bytes", np.dtype("u1"), packets * stride)
        self._table("free", np.dtype("u4"), packets)
        self._table("sent", np.dtype("u4"), sent)
        self._table("removed_in_a_row", np.dtype("u4"), removed)
        self.trace = self._table("trace", TRACE, lines)

    def lines(self) -> np.ndarray:
        """The trace of the last schedule, oldest line first."""
        count, room = int(self.record["trace_count"]), len(self.trace)
        return np.roll(self.trace, -(count % room)) if count > room else self.trace[:count].copy()
