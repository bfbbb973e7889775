"""Time passes also while frames come without a pause."""

from __future__ import annotations

import numpy as np

from fanin_reference import spec
from fpga_cosim.tb import frames
from fpga_cosim.tb.one_job import joined
from fpga_cosim.tb.target import ADDRESS, taken_apart
from fpga_cosim.tb.verilated import Module

LATER_US, FRAMES, SOON = 600_000, 2000, 1000  # more than a keep-alive interval; frames without a gap; clocks


def test_children_are_told_in_a_flood(module: Module) -> None:
    """Frames of one beat, that are not for the switch, keep its queue of headers full. KEEPALIVEs come all the same."""
    target, _, addresses = joined(module, 2)
    flood = target.beats_of([frames.frame(ADDRESS, "10.9.9.9", 9, b"") + bytes(4)] * FRAMES)
    flood["now_us"] += LATER_US
    clocks = 8 * FRAMES
    out, when = module.stream(flood, np.ones(clocks, np.uint8), np.ones(clocks, np.uint8))
    came = [taken_apart(frame) for frame in frames.from_beats(out)]
    assert sorted((each.destination, each.data[0]) for each in came) == sorted(
        (address, spec.OPCODES["KEEPALIVE"]) for address in addresses
    )
    assert when[-1] < SOON
