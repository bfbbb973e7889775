"""How fast each kernel is, beside memcpy: `python -m fanin_nic.engine.kernels`, on an otherwise idle machine.

Prints a Markdown table for each family of types: GB/s of the data added to the accumulator (FINISH, WIDEN and NARROW:
of its elements). First number: one segment that stays in the cache; second: segment after segment from memory.
"""

import time
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from fanin_nic.engine.kernels.table import FINISH, KERNELS, NARROW, WIDEN, kernel_addresses
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import call_kernel, copy
from fanin_wire.abi import Op
from fanin_wire.datatypes import DATATYPES, DataType, Family, datatype_by_code

SEGMENT = 4096  # bytes of data
AREA = 128 << 20  # bytes of data; more than any cache
BYTE = 0x3C  # repeated, an ordinary number in every type
REPETITIONS = 3  # in each round
ROUNDS = 8  # over all kernels; the best counts, as other programs run and the clock rate changes
WIDEST = max(entry.widening for entry in DATATYPES)
ROWS = {FINISH: "FINISH", WIDEN: "WIDEN", NARROW: "NARROW"}


@compiled
def _run_kernel(kernel, accumulator, data, accumulator_stride, data_stride, segments, count):
    for _ in range(segments):
        call_kernel(kernel, accumulator, data, count)
        accumulator += accumulator_stride
        data += data_stride


@compiled
def _run_memcpy(accumulator, data, stride, segments):
    for _ in range(segments):
        copy(accumulator, data, np.uint64(SEGMENT))
        accumulator += stride
        data += stride


def _best(run: Callable[[], None]) -> float:
    """Gigabytes per second over AREA bytes."""
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return AREA / min(times) / 1e9


class Bench:
    """Memory for accumulators, as wide as f32 of the smallest elements, and for data. `speeds`: the best so far, in
    GB/s, by row (None: memcpy), code of the type, and whether the segment is cached."""

    def __init__(self) -> None:
        self.accumulators, self.data = np.full(WIDEST * AREA, BYTE, np.uint8), np.full(AREA, BYTE, np.uint8)
        self.divisor = np.array([3], np.int64)
        self.speeds: defaultdict[tuple[int | None, int, bool], float] = defaultdict(float)

    def round(self) -> None:
        for cached in (True, False):
            self._note(None, 0, cached, self.memcpy(cached=cached))
            for row, code in KERNELS:
                self._note(row, code, cached, self.kernel(row, datatype_by_code(code), cached=cached))

    def _note(self, row: int | None, code: int, cached: bool, speed: float) -> None:
        self.speeds[row, code, cached] = max(self.speeds[row, code, cached], speed)

    def both(self, row: int | None, code: int) -> str:
        """The two speeds of a place, as text."""
        return f"{self.speeds[row, code, True]:.0f} / {self.speeds[row, code, False]:.1f}"

    def memcpy(self, *, cached: bool) -> float:
        target, source = np.uint64(self.accumulators.ctypes.data), np.uint64(self.data.ctypes.data)
        return _best(lambda: _run_memcpy(target, source, np.uint64(0 if cached else SEGMENT), AREA // SEGMENT))

    def kernel(self, row: int, datatype: DataType, *, cached: bool) -> float:
        kernel = KERNELS[row, datatype.code]
        count = SEGMENT // datatype.itemsize
        widening = 1 if row in (Op.MIN, Op.MAX) else datatype.widening
        data = self.divisor if row == FINISH else self.data
        arguments = [kernel_addresses()[kernel], self.accumulators.ctypes.data, data.ctypes.data]
        strides = [0, 0] if cached else [SEGMENT * widening, 0 if row in ROWS else SEGMENT]
        words = [np.uint64(word) for word in (*arguments, *strides)]
        return _best(lambda: _run_kernel(*words, AREA // SEGMENT, count))


def _family_table(bench: Bench, family: Family) -> str:
    """Markdown: a line for each row of the kernel table, a column for each type."""
    datatypes = [entry for entry in DATATYPES if entry.family == family]
    rows = sorted({row for row, code in KERNELS if any(code == entry.code for entry in datatypes)} - {Op.MEAN})
    lines = ["| | " + " | ".join(entry.name for entry in datatypes) + " |", "| --- " * (len(datatypes) + 1) + "|"]
    for row in rows:
        speeds = " | ".join(bench.both(row, entry.code) for entry in datatypes)
        lines.append(f"| {ROWS.get(row) or Op(row).name} | {speeds} |")
    return "\n".join(lines)


def main() -> None:
    bench = Bench()
    for _ in range(ROUNDS):
        bench.round()
    print(f"GB/s in the cache / from memory. memcpy: {bench.both(None, 0)}")
    for family in Family:
        print(f"\n### {family}\n\n{_family_table(bench, family)}")


if __name__ == "__main__":
    main()
