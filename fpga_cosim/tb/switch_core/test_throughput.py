"""How many clocks a contribution takes in steady state, and how many pass from the last one to the result."""

from __future__ import annotations

import numpy as np
import pytest

from fpga_cosim.tb import frames
from fpga_cosim.tb.one_job import PAYLOAD, contributions, joined, streamed
from fpga_cosim.tb.verilated import Module

POSITIONS = 24
# The least share of one beat a clock, by bytes of payload and children. docs/fpga.md has what was measured.
LEAST = {(256, 2): 0.43, (256, 4): 0.47, (256, 8): 0.49}
LEAST |= {(size, children): 0.95 for size in (1024, 4096) for children in (2, 4, 8)}
LONGEST = 40  # clocks from the last beat of the last contribution to the first of the first result, of 1 KiB


@pytest.mark.parametrize("children", [2, 4, 8])
def test_clocks_a_packet(module: Module, children: int, size: int) -> None:
    target, job, addresses = joined(module, children, size)
    sent = contributions(job, addresses, POSITIONS, size)
    bus = -(-len(sent[0]) // frames.BEAT)
    came, when = streamed(target, sent, np.ones(8 * bus * len(sent) + 400, np.uint8))
    assert len(came) == len(sent), "a result for each contribution"
    for number, frame in enumerate(came):
        position = number // children
        total = 100 * sum(range(children)) + children * position
        assert frame[PAYLOAD : PAYLOAD + size] == np.full(size // 4, total, "<i4").tobytes()
    per_position = (int(when[-1]) - int(when[0])) / (POSITIONS - 1 + 1 / 2) / children
    share = bus / per_position
    print(f"{children} children, {size} B: {per_position:.1f} clocks a packet, bus {bus}: {100 * share:.0f} %")
    assert share > LEAST[size, children]


def test_latency(module: Module) -> None:
    target, job, addresses = joined(module, 2)
    first, last = contributions(job, addresses, 1, 1024)
    streamed(target, [first], np.ones(200, np.uint8))
    came, when = streamed(target, [last], np.ones(300, np.uint8))
    beats = -(-len(last) // frames.BEAT)
    print(f"latency: {int(when[0]) - (beats - 1)} clocks")
    assert int(when[0]) - (beats - 1) < LONGEST
    assert len(came) == 2
