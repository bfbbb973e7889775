"""How many segments one core takes through the engine of a switch: parse, bitmap, reduce, encapsulate; no port."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass

from fanin_nic.sim.load import ICRC_IN_AND_OUT, ICRC_IN_ONE_OUT, NO_ICRC, Load
from fanin_tools.errors import ToolError
from fanin_tools.fabric.devices import Say
from fanin_tools.quantities import render_size

PAYLOADS = (256, 1024, 4096)  # bytes
CHECKS = {
    NO_ICRC: "no ICRC",
    ICRC_IN_ONE_OUT: "ICRC in, and of one result of a segment",
    ICRC_IN_AND_OUT: "ICRC in and out",
}
SMALL, LARGE = 256 << 10, 64 << 20  # bytes of packets: of a second-level cache, and of more than all caches
SECONDS = 0.5  # of each measurement
LEAST = 5  # rounds


@dataclass(frozen=True)
class Row:
    """Million segments per second that come in: the median of rounds; working_set: bytes."""

    payload: int
    working_set: int
    check: str
    segments_per_us: float
    best_per_us: float

    def as_dict(self) -> dict[str, object]:
        """The same for `--json`."""
        return asdict(self)


def measure(say: Say) -> list[Row]:
    """Every payload size, from the cache and from memory, with and without ICRC."""
    rows = []
    for payload in PAYLOADS:
        for volume in (SMALL, LARGE):
            segments = volume // (4 * payload)
            slots = min(2048, 1 << segments.bit_length() - 1)
            load = Load(payload, segments, slots)
            say(f"payload {render_size(payload)}, working set {render_size(load.working_set)} ...")
            rows += [_measure(load, payload, icrc) for icrc in CHECKS]
    return rows


def _measure(load: Load, payload: int, icrc: int) -> Row:
    rates: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(rates) < LEAST or time.perf_counter() < end:
        load.restore()
        start = time.perf_counter()
        sent = load.run(icrc)
        rates.append(len(load.packets) / (time.perf_counter() - start) * 1e-6)
        if sent != len(load.packets):  # four results of each segment, which four have contributed to
            cause = f"the switch sent {sent} packets for {len(load.packets)} contributions"
            raise ToolError("WRONG_RESULT", cause, "this is a defect: report it with the output of fanin doctor --json")
    return Row(payload, load.working_set, CHECKS[icrc], statistics.median(rates), max(rates))
